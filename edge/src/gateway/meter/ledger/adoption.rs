//! Completions that come to the ledger from journals.

use domain::usage::UsageRow;

use super::{Ledger, Status};
use crate::gateway::meter::journal::{AbandonedCompletion, Completions};

impl Ledger {
    /// Enters a completion of a dead edge, already ended. Does nothing if it is in the ledger.
    ///
    /// Its usage is not reported to Redis, which may have forgotten it with good reason: Postgres may have the row since
    /// long. Where Postgres has not, the reservation is still there.
    pub(in crate::gateway::meter) fn adopt(&self, completion: &AbandonedCompletion) {
        let id = &completion.row.id;
        if self.contains(id) {
            return;
        }
        self.open(completion.row.clone());
        if completion.is_released {
            self.release(id);
        } else {
            self.end_with(id, UsageRow::set_unheard, false);
        }
    }

    /// Enters those of `completions` that have ended, to be written to Postgres again. Returns their number.
    pub(in crate::gateway::meter) fn readopt(&self, completions: &Completions) -> usize {
        // What goes on is in the ledger of the edge that it goes on at.
        let ended = completions.iter().filter(|completion| completion.has_ended && !self.contains(&completion.row.id));
        ended.map(|completion| self.adopt(completion)).count()
    }

    /// Takes back what others are settling, or have settled, of a completion of a dead edge that used nothing.
    pub(in crate::gateway::meter) fn withdraw(&self, row: UsageRow) {
        let id = row.id.clone();
        if !self.contains(&id) {
            self.open(row);
            self.release(&id);
        }
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
