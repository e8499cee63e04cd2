//! What a journal says of its completions, without their rows.

use std::collections::{BTreeMap, BTreeSet};

use domain::CompletionId;

use super::{AbandonedCompletion, Record};

/// The completions of a journal, and how each has ended.
///
/// Its beginning and its end may be in different segments. With this, one segment after the other can be gone through: a
/// completion takes some hundred bytes here, of which its row would be several times as many.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::gateway::meter) struct JournalIndex {
    ends: BTreeMap<CompletionId, End>,
    /// The dead edges whose journals its edge had taken over.
    adopted: BTreeSet<String>,
}

/// How a completion has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its end is not recorded.
    Unknown,
    /// It used what is only estimated.
    Estimated,
    /// It used what is known.
    Known,
    /// It used nothing.
    Released,
}

impl JournalIndex {
    /// Applies the next record.
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

    /// The number of completions.
    pub(in crate::gateway::meter) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of completions whose usage is only estimated.
    pub(in crate::gateway::meter) fn estimated(&self) -> usize {
        self.ends.values().filter(|end| matches!(end, End::Unknown | End::Estimated)).count()
    }

    /// Whether there is a record of this completion.
    pub(in crate::gateway::meter) fn contains(&self, id: &CompletionId) -> bool {
        self.ends.contains_key(id)
    }

    /// The completions' ids, in their order.
    pub(in crate::gateway::meter) fn ids(&self) -> impl Iterator<Item = &CompletionId> {
        self.ends.keys()
    }

    /// The dead edges whose journals the edge of this one had taken over.
    pub(in crate::gateway::meter) fn adopted(&self) -> &BTreeSet<String> {
        &self.adopted
    }

    /// Returns what the whole journal says of a completion that one of its segments has; `None` if another one has what it used.
    pub(in crate::gateway::meter) fn complete(&self, found: AbandonedCompletion) -> Option<AbandonedCompletion> {
        match self.ends.get(&found.row.id) {
            Some(End::Released) => Some(AbandonedCompletion { has_ended: true, is_released: true, ..found }),
            Some(End::Estimated | End::Known) if !found.has_ended => None,
            _ => Some(found),
        }
    }
}
