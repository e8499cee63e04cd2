//! The completions in a journal, without their rows.

use std::collections::{BTreeMap, BTreeSet};

use domain::CompletionId;

use super::{AbandonedCompletion, JournalRecord};

/// The completions of a journal and how each ended.
///
/// A completion's start and end may be in different segments. The index allows reading the segments one by one: it
/// takes some hundred bytes per completion, where a row would take several times as much.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalIndex {
    ends: BTreeMap<CompletionId, CompletionEnd>,
    /// The dead edges whose journals this one's edge had adopted.
    adopted: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionEnd {
    /// The end is not recorded.
    Unknown,
    Estimated,
    Known,
    Released,
}

impl JournalIndex {
    pub(crate) fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Open(row) => _ = self.ends.entry(row.id).or_insert(CompletionEnd::Unknown),
            JournalRecord::Ended(row) => {
                let end = if row.is_estimated() { CompletionEnd::Estimated } else { CompletionEnd::Known };
                self.ends.insert(row.id, end);
            }
            JournalRecord::Released(id) => {
                if let Some(end) = self.ends.get_mut(&id) {
                    *end = CompletionEnd::Released;
                }
            }
            JournalRecord::Unused(row) => _ = self.ends.insert(row.id, CompletionEnd::Released),
            JournalRecord::Adopted(edge) => _ = self.adopted.insert(edge),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of completions whose usage is only estimated.
    pub(crate) fn estimated(&self) -> usize {
        self.ends.values().filter(|end| matches!(end, CompletionEnd::Unknown | CompletionEnd::Estimated)).count()
    }

    pub(crate) fn contains(&self, id: &CompletionId) -> bool {
        self.ends.contains_key(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &CompletionId> {
        self.ends.keys()
    }

    pub(crate) fn adopted(&self) -> &BTreeSet<String> {
        &self.adopted
    }

    /// Completes a segment's record from the whole journal. Returns `None` if another segment has the completion's
    /// usage.
    pub(crate) fn complete(&self, found: AbandonedCompletion) -> Option<AbandonedCompletion> {
        match self.ends.get(&found.row.id) {
            Some(CompletionEnd::Released) => Some(AbandonedCompletion { has_ended: true, is_released: true, ..found }),
            Some(CompletionEnd::Estimated | CompletionEnd::Known) if !found.has_ended => None,
            _ => Some(found),
        }
    }
}
