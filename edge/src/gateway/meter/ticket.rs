//! A completion that was admitted, in the hands of whoever serves it.

use std::{fmt, sync::Arc};

use config::models::Model;
use domain::{
    CompletionId,
    usage::{Microcents, UsageRow},
};

use super::{Usage, books::Books};
use crate::limits;

/// An admitted completion. Settle it before the client gets the last bytes of its answer: when [`Self::settle`] returns,
/// what was used survives the program's death. One that is dropped is settled from its estimate, and marked.
pub struct Ticket {
    id: CompletionId,
    books: Arc<Books>,
    model: Arc<Model>,
    settled: bool,
}

impl Ticket {
    pub(super) fn new(books: Arc<Books>, row: UsageRow, model: Arc<Model>) -> Self {
        let id = row.id.clone();
        books.begin(row);
        Self { id, books, model, settled: false }
    }

    /// The completion's id.
    pub fn id(&self) -> &CompletionId {
        &self.id
    }

    /// So much was used.
    pub fn settle(mut self, usage: Usage) {
        self.settled = true;
        let (prompt, completion) =
            (usage.prompt.min(limits::BELIEVED_TOKENS), usage.completion.min(limits::BELIEVED_TOKENS));
        let cost = Microcents::of(prompt, self.model.input_cents, completion, self.model.output_cents);
        crate::metrics::tokens(&self.model.id, &Usage { prompt, completion, ..usage });
        self.books.end(&self.id, |row| {
            (row.prompt, row.completion, row.estimated, row.cost) = (prompt, completion, usage.estimated, cost);
        });
    }

    /// Nothing was used: the provider was not asked, or refused.
    pub fn release(mut self) {
        self.settled = true;
        self.books.release(&self.id);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.settled {
            tracing::debug!(id = %self.id, "a completion ends unsettled; its estimate counts");
            self.books.end(&self.id, |_| {});
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.id)
    }
}
