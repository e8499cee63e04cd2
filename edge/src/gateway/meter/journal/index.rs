//! The completions in a journal, without their rows.

use std::collections::{BTreeMap, BTreeSet};

use domain::CompletionId;

use super::{AbandonedCompletion, Record};

/// The completions of a journal and how each ended.
///
/// A completion's start and end may be in different segments. The index allows reading the segments one by one: it
/// takes some hundred bytes per completion, where a row would take several times as much.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::gateway::meter) struct JournalIndex {
    ends: BTreeMap<CompletionId, End>,
    /// The dead edges whose journals this one's edge had adopted.
    adopted: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The end is not recorded.
    Unknown,
    Estimated,
    Known,
    Released,
}

impl JournalIndex {
    pub(in crate::gateway::meter) fn apply(&mut self, record: Record) {
        match record {
            Record::Open(row) => _ = self.ends.entry(row.id).or_insert(End::Unknown),
            Record::Ended(row) => {
                let end = if row.is_estimated() { End::Estimated } else { End::Known };
                self.ends.insert(row.id, end);
            }
            Record::Released(id) => {
                if let Some(end) = self.ends.get_mut(&id) {
                    *end = End::Released;
                }
            }
            Record::Unused(row) => _ = self.ends.insert(row.id, End::Released),
            Record::Adopted(edge) => _ = self.adopted.insert(edge),
        }
    }

    pub(in crate::gateway::meter) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of completions whose usage is only estimated.
    pub(in crate::gateway::meter) fn estimated(&self) -> usize {
        self.ends.values().filter(|end| matches!(end, End::Unknown | End::Estimated)).count()
    }

    pub(in crate::gateway::meter) fn contains(&self, id: &CompletionId) -> bool {
        self.ends.contains_key(id)
    }

    pub(in crate::gateway::meter) fn ids(&self) -> impl Iterator<Item = &CompletionId> {
        self.ends.keys()
    }

    pub(in crate::gateway::meter) fn adopted(&self) -> &BTreeSet<String> {
        &self.adopted
    }

    /// Completes a segment's record from the whole journal. Returns `None` if another segment has the completion's
    /// usage.
    pub(in crate::gateway::meter) fn complete(&self, found: AbandonedCompletion) -> Option<AbandonedCompletion> {
        match self.ends.get(&found.row.id) {
            Some(End::Released) => Some(AbandonedCompletion { has_ended: true, is_released: true, ..found }),
            Some(End::Estimated | End::Known) if !found.has_ended => None,
            _ => Some(found),
        }
    }
}
