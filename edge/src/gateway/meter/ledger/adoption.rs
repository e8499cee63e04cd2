//! Completions that come to the ledger from journals.

use std::{collections::BTreeSet, sync::Arc};

use domain::{CompletionId, usage::UsageRow};

use super::{Ledger, State, Status};
use crate::{
    gateway::meter::journal::{AbandonedCompletion, Completions, JournalIndex, RecordRef},
    limits,
    spool::SegmentId,
};

/// A journal of a dead edge that was taken over, until Postgres knows that it is settled.
pub(super) struct Adoption {
    /// The edge, and those whose journals it had taken over; each with the segment of our journal that says so.
    edges: Vec<(String, Option<SegmentId>)>,
    /// Its completions that were not settled yet. The last one is in the ledger, as far as anybody has looked.
    left: Vec<CompletionId>,
    /// Its journal, while Redis has not been asked yet what the edge reserved beyond it.
    uncompared: Option<Arc<AdoptedJournal>>,
}

/// What a dead edge's journal says.
pub(in crate::gateway::meter) struct AdoptedJournal {
    pub(in crate::gateway::meter) edge: String,
    pub(in crate::gateway::meter) index: JournalIndex,
}

impl Ledger {
    /// Enters a completion of a dead edge, already ended. Does nothing if it is in the ledger. Returns whether the journal has its
    /// end, see [`is_safe`](Self::is_safe).
    ///
    /// Its usage is not reported to Redis, which may have forgotten it with good reason: Postgres may have the row since
    /// long. Where Postgres has not, the reservation is still there.
    pub(in crate::gateway::meter) fn adopt(&self, completion: &AbandonedCompletion) -> bool {
        let id = &completion.row.id;
        if self.contains(id) {
            return self.is_safe(id);
        }
        if completion.is_released {
            self.enter_unused(&completion.row);
        } else {
            // Its end alone is written down: killed in between, we would leave less than the dead edge did.
            self.admit(completion.row.clone());
            self.end_with(id, UsageRow::set_unheard, false);
        }
        self.is_safe(id)
    }

    /// Whether a completion needs no other journal than that of this edge: its end is in there, or it is settled.
    pub(in crate::gateway::meter) fn is_safe(&self, id: &CompletionId) -> bool {
        self.state().entries.get(id).is_none_or(|entry| entry.segments[1].is_some())
    }

    /// Enters those of `completions` that have ended, to be written to Postgres again. Returns their number.
    pub(in crate::gateway::meter) fn readopt(&self, completions: &Completions) -> usize {
        // What goes on is in the ledger of the edge that it goes on at.
        let ended = completions.iter().filter(|completion| completion.has_ended && !self.contains(&completion.row.id));
        ended.inspect(|completion| _ = self.adopt(completion)).count()
    }

    /// Notes that `journal`, of which all is entered, is the last that is to be settled of these dead edges. Our journal has it until
    /// [`forget_adopted`](Self::forget_adopted): whoever takes that over answers for them, too. None of them counts as settled
    /// before [`mark_compared`](Self::mark_compared), if Redis could not be asked yet what was reserved beyond the journal.
    pub(in crate::gateway::meter) fn note_adopted(
        &self,
        edges: BTreeSet<String>,
        journal: &Arc<AdoptedJournal>,
        is_compared: bool,
    ) {
        let noted: usize = self.state().adoptions.iter().map(|adoption| adoption.edges.len()).sum();
        if edges.is_empty() || noted + edges.len() > limits::ADOPTED_EDGES {
            return;
        }
        let note = |edge: String| {
            let segment = self.journal.append(&RecordRef::Adopted(&edge));
            (edge, segment)
        };
        let edges = edges.into_iter().map(note).collect();
        let uncompared = (!is_compared).then(|| journal.clone());
        let mut state = self.state();
        let left = journal.index.ids().filter(|id| state.entries.contains_key(id)).cloned().collect();
        state.adoptions.push(Adoption { edges, left, uncompared });
    }

    /// The journals of dead edges of which Redis has not been asked yet what was reserved beyond them.
    pub(in crate::gateway::meter) fn uncompared_journals(&self) -> Vec<Arc<AdoptedJournal>> {
        self.state().adoptions.iter().filter_map(|adoption| adoption.uncompared.clone()).collect()
    }

    /// Notes that Redis has nothing more of this dead edge than `journal` had.
    pub(in crate::gateway::meter) fn mark_compared(&self, journal: &Arc<AdoptedJournal>) {
        for adoption in &mut self.state().adoptions {
            adoption.uncompared.take_if(|uncompared| Arc::ptr_eq(uncompared, journal));
        }
    }

    /// Returns dead edges of which nothing is left to be settled, at most `limit`.
    pub(in crate::gateway::meter) fn settled_edges(&self, limit: usize) -> Vec<String> {
        let mut state = self.state();
        let State { entries, adoptions, .. } = &mut *state;
        for Adoption { left, .. } in adoptions.iter_mut() {
            while left.pop_if(|id| !entries.contains_key(id)).is_some() {}
        }
        let settled = adoptions.iter().filter(|adoption| adoption.left.is_empty() && adoption.uncompared.is_none());
        settled.flat_map(|adoption| &adoption.edges).map(|(edge, _)| edge.clone()).take(limit).collect()
    }

    /// Forgets dead edges: Postgres knows that they are settled, or nobody can.
    pub(in crate::gateway::meter) fn forget_adopted(&self, edges: &[String]) {
        let mut segments = Vec::new();
        self.state().adoptions.retain_mut(|adoption| {
            let forgotten = adoption.edges.extract_if(.., |(edge, _)| edges.contains(edge));
            segments.extend(forgotten.filter_map(|(_, segment)| segment));
            !adoption.edges.is_empty()
        });
        self.journal.release(segments);
    }

    /// Takes back what others are settling, or have settled, of a completion of a dead edge that used nothing. Returns whether the
    /// journal has that, see [`is_safe`](Self::is_safe).
    pub(in crate::gateway::meter) fn withdraw(&self, row: &UsageRow) -> bool {
        if !self.contains(&row.id) {
            self.enter_unused(row);
        }
        self.is_safe(&row.id)
    }

    /// Enters a completion that used nothing, and of which no provider is asked. The journal has it in one line: killed between two,
    /// we would leave a completion that is charged.
    fn enter_unused(&self, row: &UsageRow) {
        self.admit(row.clone());
        let segment = self.journal.append(&RecordRef::Unused(row));
        self.end_unused(&row.id, 1, segment);
    }

    /// Has every completion written again that Postgres has and Redis has not confirmed.
    pub(in crate::gateway::meter) fn requeue_written(&self) {
        let mut state = self.state();
        let state = &mut *state;
        for (id, entry) in &mut state.entries {
            if entry.status == Status::Written {
                entry.status = Status::Ended;
                state.to_write.push_back(id.clone());
            }
        }
    }
}
