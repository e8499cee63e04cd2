//! Adds completions from journals to the ledger.

use std::{collections::BTreeSet, sync::Arc};

use domain::{CompletionId, usage::UsageRow};
use spool::SegmentId;

use super::{CompletionLedger, EntryStatus, LedgerState};
use crate::journal::{AbandonedCompletion, JournalIndex, JournalRecordRef, JournaledCompletions};

/// An adopted journal of a dead edge, until Postgres knows that it is settled.
pub(super) struct SettlingEdges {
    /// The edge and those whose journals it had adopted, each with the segment of our journal that records it.
    edges: Vec<(String, Option<SegmentId>)>,
    /// Its unsettled completions. The last one was in the ledger when last checked.
    left: Vec<CompletionId>,
    /// Its journal, until it has been compared with the edge's reservations in Redis.
    uncompared: Option<Arc<AdoptedJournal>>,
}

pub(crate) struct AdoptedJournal {
    pub(crate) edge: String,
    pub(crate) index: JournalIndex,
}

impl CompletionLedger {
    /// Enters a completion of a dead edge as ended, unless it is already in the ledger. Returns whether the journal has
    /// its end; see [`is_safe`](Self::is_safe).
    ///
    /// Its usage is not reported to Redis, which may have dropped it rightly because Postgres has had the row for long.
    /// If Postgres does not have it, the reservation is still in Redis.
    pub(crate) fn adopt(&self, completion: &AbandonedCompletion) -> bool {
        let id = &completion.row.id;
        if self.contains(id) {
            return self.is_safe(id);
        }
        if completion.is_released {
            self.enter_unused(&completion.row);
        } else {
            // Only its end is journaled: if we were killed in between, we would leave less than the dead edge did.
            self.admit(completion.row.clone());
            self.end_with(id, UsageRow::charge_lost, false);
        }
        self.is_safe(id)
    }

    /// Returns whether a completion no longer needs another edge's journal: its end is in ours, or it is settled.
    pub(crate) fn is_safe(&self, id: &CompletionId) -> bool {
        self.state().entries.get(id).is_none_or(|entry| entry.segments[1].is_some())
    }

    /// Enters those of `completions` that have ended, so that they are written to Postgres again. Returns their number.
    pub(crate) fn readopt(&self, completions: &JournaledCompletions) -> usize {
        // Pending completions are in the ledger of the edge that runs them.
        let ended = completions.iter().filter(|completion| completion.has_ended && !self.contains(&completion.row.id));
        ended.inspect(|completion| _ = self.adopt(completion)).count()
    }

    /// Records that `journal`, now fully entered, is the last to settle for these dead edges. Our journal keeps the
    /// record until [`forget_adopted`](Self::forget_adopted), for the edge that may adopt ours. If the journal is not
    /// compared with Redis yet, the edges do not count as settled before [`mark_compared`](Self::mark_compared).
    pub(crate) fn note_adopted(&self, edges: BTreeSet<String>, journal: &Arc<AdoptedJournal>, is_compared: bool) {
        let noted: usize = self.state().adoptions.iter().map(|adoption| adoption.edges.len()).sum();
        if edges.is_empty() || noted + edges.len() > limits::ADOPTED_EDGES {
            return;
        }
        let note = |edge: String| {
            let segment = self.journal.append(&JournalRecordRef::Adopted(&edge));
            (edge, segment)
        };
        let edges = edges.into_iter().map(note).collect();
        let uncompared = (!is_compared).then(|| journal.clone());
        let mut state = self.state();
        let left = journal.index.ids().filter(|id| state.entries.contains_key(id)).cloned().collect();
        state.adoptions.push(SettlingEdges { edges, left, uncompared });
    }

    pub(crate) fn uncompared_journals(&self) -> Vec<Arc<AdoptedJournal>> {
        self.state().adoptions.iter().filter_map(|adoption| adoption.uncompared.clone()).collect()
    }

    /// Records that Redis has no reservations of this dead edge beyond its `journal`.
    pub(crate) fn mark_compared(&self, journal: &Arc<AdoptedJournal>) {
        for adoption in &mut self.state().adoptions {
            adoption.uncompared.take_if(|uncompared| Arc::ptr_eq(uncompared, journal));
        }
    }

    /// Returns at most `limit` dead edges of which everything is settled.
    pub(crate) fn settled_edges(&self, limit: usize) -> Vec<String> {
        let mut state = self.state();
        let LedgerState { entries, adoptions, .. } = &mut *state;
        for SettlingEdges { left, .. } in adoptions.iter_mut() {
            while left.pop_if(|id| !entries.contains_key(id)).is_some() {}
        }
        let settled = adoptions.iter().filter(|adoption| adoption.left.is_empty() && adoption.uncompared.is_none());
        settled.flat_map(|adoption| &adoption.edges).map(|(edge, _)| edge.clone()).take(limit).collect()
    }

    /// Forgets dead edges, because Postgres knows that they are settled, or because it cannot be known.
    pub(crate) fn forget_adopted(&self, edges: &[String]) {
        let mut segments = Vec::new();
        self.state().adoptions.retain_mut(|adoption| {
            let forgotten = adoption.edges.extract_if(.., |(edge, _)| edges.contains(edge));
            segments.extend(forgotten.filter_map(|(_, segment)| segment));
            !adoption.edges.is_empty()
        });
        self.journal.release(segments);
    }

    /// Withdraws what others are settling or have settled of a dead edge's completion that used nothing. Returns
    /// whether the journal has that; see [`is_safe`](Self::is_safe).
    pub(crate) fn withdraw(&self, row: &UsageRow) -> bool {
        if !self.contains(&row.id) {
            self.enter_unused(row);
        }
        self.is_safe(&row.id)
    }

    /// Enters a completion that used nothing and is not sent to a provider. It is journaled in one record: if we were
    /// killed between two, the completion would be charged.
    fn enter_unused(&self, row: &UsageRow) {
        self.admit(row.clone());
        let segment = self.journal.append(&JournalRecordRef::Unused(row));
        self.end_unused(&row.id, 1, segment);
    }

    /// Requeues every completion that was written to Postgres but not confirmed to Redis.
    pub(crate) fn requeue_written(&self) {
        let mut state = self.state();
        let state = &mut *state;
        for (id, entry) in &mut state.entries {
            if entry.status == EntryStatus::Written {
                entry.status = EntryStatus::Ended;
                state.to_write.push_back(id.clone());
            }
        }
    }
}
