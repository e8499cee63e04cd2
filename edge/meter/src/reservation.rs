//! The reservation that an admitted completion holds until its usage is known.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use config::models::Model;
use domain::{
    CompletionId,
    usage::{Ending, Microcents, UsageCertainty, UsageDetails, UsageRow},
};
use openai::usage::TokenUsage;
use traces::CompletionSpan;

use super::{charge::ChargeFlag, ledger::CompletionLedger, tally::UsageTally};

/// An admission whose outcome in Redis is pending.
///
/// If it is dropped before the outcome is known (the client left, or Redis did not respond), it releases the
/// reservations: the script may have run, or may still run.
pub(super) struct PendingAdmission<'a> {
    ledger: &'a CompletionLedger,
    row: &'a UsageRow,
    spares: &'a [UsageRow],
    is_decided: bool,
}

impl<'a> PendingAdmission<'a> {
    /// Created before the reservation and its spares are requested from Redis.
    pub(super) fn new(ledger: &'a CompletionLedger, row: &'a UsageRow, spares: &'a [UsageRow]) -> Self {
        Self { ledger, row, spares, is_decided: false }
    }

    /// Records that the outcome is known.
    pub(super) fn mark_decided(mut self) {
        self.is_decided = true;
    }
}

impl Drop for PendingAdmission<'_> {
    fn drop(&mut self) {
        if !self.is_decided {
            [self.row].into_iter().chain(self.spares).for_each(|row| self.ledger.release_uncertain(row.clone()));
        }
    }
}

/// The reservation of an admitted completion.
///
/// It is settled before the client gets the last bytes of its answer: once [`settle`](Self::settle) returns, the usage
/// survives the death of this process. If it is dropped unsettled, it counts as an estimate with the full answer if
/// [`open_callback`](Self::open_callback) recorded that a provider was sent the request, and is released otherwise.
pub struct Reservation {
    id: CompletionId,
    ledger: Arc<CompletionLedger>,
    /// The model at the provider that serves the completion. A second provider has the same prices.
    served: Mutex<Arc<Model>>,
    tokens: u64,
    tally: Option<Arc<UsageTally>>,
    charge: ChargeFlag,
    span: Option<CompletionSpan>,
    is_ended: bool,
}

impl Reservation {
    /// Enters `row`, which has the most that the completion can use, into the ledger.
    pub(super) fn new(ledger: Arc<CompletionLedger>, row: UsageRow, model: Arc<Model>) -> Self {
        let (id, tokens) = (row.id.clone(), row.tokens());
        ledger.admit(row);
        let (served, charge) = (Mutex::new(model), ChargeFlag::default());
        Self { id, ledger, served, tokens, tally: None, charge, span: None, is_ended: false }
    }

    /// Sets the tally, which already includes the reservation, to update at its end.
    pub(super) fn settle_in(&mut self, tally: Arc<UsageTally>) {
        self.tally = Some(tally);
    }

    /// Sets the flag that records whether the completion is charged, and the span that records its usage.
    pub fn report_to(&mut self, charge: ChargeFlag, span: Option<CompletionSpan>) {
        (self.charge, self.span) = (charge, span);
    }

    /// Returns the span that records the completion, if it is traced.
    pub fn span(&self) -> Option<&CompletionSpan> {
        self.span.as_ref()
    }

    /// Returns the completion's id.
    pub fn id(&self) -> &CompletionId {
        &self.id
    }

    /// Returns the model at the provider that serves the completion.
    pub fn served(&self) -> Arc<Model> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a function that journals that the completion is sent to a provider. Call it right before: from then on
    /// the completion counts even if this process dies. Repeated calls have no effect, unless for another provider.
    pub fn open_callback(&self) -> impl Fn() + Clone + Send + 'static {
        let (id, ledger) = (self.id.clone(), self.ledger.clone());
        move || ledger.open(&id)
    }

    /// Records that the provider of `model` serves the completion instead of the first one. The row and the span name
    /// that provider, and its usage is read from where that provider reports it.
    pub fn set_serving_model(&self, model: &Arc<Model>) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone_from(model);
        self.ledger.set_provider(&self.id, &model.provider.name);
        if let Some(span) = &self.span {
            span.record_model(model);
        }
    }

    /// Returns whether the completion was sent to a provider.
    pub fn is_sent(&self) -> bool {
        self.ledger.is_open(&self.id)
    }

    /// Replaces the reservation with the actual usage and records how the completion ended. Counts are capped at
    /// [`limits::BELIEVED_TOKENS`]. Returns the cost.
    pub fn settle(mut self, usage: TokenUsage, ending: Ending) -> Microcents {
        self.is_ended = true;
        let (prompt, completion) =
            (usage.prompt.min(limits::BELIEVED_TOKENS), usage.completion.min(limits::BELIEVED_TOKENS));
        let kinds = usage.kinds.clamped_to(prompt, completion);
        let served = self.served.get_mut().unwrap_or_else(PoisonError::into_inner);
        let charge = served.prices.charge(prompt, completion, &kinds);
        edge_metrics::tokens(&served.id, prompt, completion, usage.is_estimated);
        if usage.is_contradictory {
            edge_metrics::usage_contradicted(&served.provider.name);
        }
        if prompt + completion > 0 {
            self.charge.set();
        }
        if let Some(span) = &self.span {
            span.record_usage(&self.id, &usage);
        }
        if let Some(tally) = &self.tally {
            tally.settle(self.tokens, prompt + completion);
        }
        self.ledger.end(&self.id, |row| {
            let certainty = if usage.is_estimated { UsageCertainty::Seen } else { UsageCertainty::Reported };
            (row.prompt, row.completion, row.certainty, row.cost) = (prompt, completion, certainty, charge.cost);
            row.details = UsageDetails { kinds, assumed: charge.assumed, ending: Some(ending) };
        });
        charge.cost
    }

    /// Releases the reservation of a completion that used nothing: no provider got the request, or it was refused.
    pub fn release(mut self) {
        self.is_ended = true;
        if let Some(tally) = &self.tally {
            tally.settle(self.tokens, 0);
        }
        self.ledger.release(&self.id);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if self.is_sent() {
            tracing::debug!(id = %self.id, "a completion ends unsettled; its reservation counts");
            self.charge.set();
            self.ledger.end(&self.id, UsageRow::charge_lost);
        } else {
            self.ledger.release(&self.id);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({})", self.id)
    }
}
