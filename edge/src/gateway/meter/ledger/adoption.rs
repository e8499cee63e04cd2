//! Completions that come to the ledger from journals.

use super::Ledger;
use crate::gateway::meter::journal::AbandonedCompletion;

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
            self.end_with(id, |_| {}, false);
        }
    }
}
