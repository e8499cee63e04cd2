//! The reservation that an admitted completion holds until its usage is known.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use config::models::Model;
use domain::{
    CompletionId,
    usage::{Certainty, Ending, Microcents, UsageDetails, UsageRow},
};

use super::{super::traces::Span, charge::Charge, ledger::Ledger, tally::Tally, usage::Usage};
use crate::limits;

/// An admission that Redis is being asked for, and of whose outcome nothing is known yet.
///
/// Dropped in that state (the client has left, or Redis did not answer), it sees to it that no reservation is left behind:
/// the script may have run, or may still run.
pub(super) struct PendingAdmission<'a> {
    ledger: &'a Ledger,
    row: &'a UsageRow,
    spares: &'a [UsageRow],
    is_decided: bool,
}

impl<'a> PendingAdmission<'a> {
    /// To be made before Redis is asked for the reservation and its spares.
    pub(super) fn of(ledger: &'a Ledger, row: &'a UsageRow, spares: &'a [UsageRow]) -> Self {
        Self { ledger, row, spares, is_decided: false }
    }

    /// It is known whether there is a reservation.
    pub(super) fn decided(mut self) {
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
/// It is settled before the client gets the last bytes of its answer: when [`settle`](Self::settle) returns, the usage
/// survives the death of this process. A reservation that is dropped counts as an estimate, with all of the answer, if a provider
/// was asked, by what [`opener`](Self::opener) says; otherwise it is given back.
pub struct Reservation {
    id: CompletionId,
    ledger: Arc<Ledger>,
    /// The model at the provider that serves the completion: the first one until a second is asked. Both have the same prices.
    served: Mutex<Arc<Model>>,
    tokens: u64,
    tally: Option<Arc<Tally>>,
    charge: Charge,
    span: Option<Span>,
    is_ended: bool,
}

impl Reservation {
    /// Enters `row`, which says what the completion can use at most, into the ledger.
    pub(super) fn new(ledger: Arc<Ledger>, row: UsageRow, model: Arc<Model>) -> Self {
        let (id, tokens) = (row.id.clone(), row.tokens());
        ledger.admit(row);
        let (served, charge) = (Mutex::new(model), Charge::default());
        Self { id, ledger, served, tokens, tally: None, charge, span: None, is_ended: false }
    }

    /// Has `tally`, in which it is, know its end.
    pub(super) fn settle_in(&mut self, tally: Arc<Tally>) {
        self.tally = Some(tally);
    }

    /// Has `charge` know whether the completion costs anything, and `span` what it has used.
    pub(in crate::gateway) fn report_to(&mut self, charge: Charge, span: Option<Span>) {
        (self.charge, self.span) = (charge, span);
    }

    /// The completion's span.
    pub(in crate::gateway) fn span(&self) -> Option<&Span> {
        self.span.as_ref()
    }

    /// The completion's id.
    pub fn id(&self) -> &CompletionId {
        &self.id
    }

    /// The model at the provider that serves the completion.
    pub fn served(&self) -> Arc<Model> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A function that writes into the journal that a provider is asked for the completion, to be called right before that happens.
    /// From then on the completion counts, although this process dies. Called again, it does nothing, unless another provider is asked.
    pub fn opener(&self) -> impl Fn() + Clone + Send + 'static {
        let (id, ledger) = (self.id.clone(), self.ledger.clone());
        move || ledger.open(&id)
    }

    /// Records that the completion is served by the provider of `model`, where that is not the one that was to be asked first: its row
    /// and its span name that provider, and its usage is read from the places where that provider has it.
    pub fn serve_by(&self, model: &Arc<Model>) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone_from(model);
        self.ledger.set_provider(&self.id, &model.provider.name);
        if let Some(span) = &self.span {
            span.served_by(model);
        }
    }

    /// Whether a provider has been asked for the completion.
    pub fn is_asked(&self) -> bool {
        self.ledger.is_open(&self.id)
    }

    /// Replaces the reservation with what was used, and notes how the completion ended. Counts beyond [`limits::BELIEVED_TOKENS`] are
    /// cut to it. Returns what the completion costs.
    pub fn settle(mut self, usage: Usage, ending: Ending) -> Microcents {
        self.is_ended = true;
        let (prompt, completion) =
            (usage.prompt.min(limits::BELIEVED_TOKENS), usage.completion.min(limits::BELIEVED_TOKENS));
        let kinds = usage.kinds.within(prompt, completion);
        let served = self.served.get_mut().unwrap_or_else(PoisonError::into_inner);
        let charge = served.prices.charge(prompt, completion, &kinds);
        crate::metrics::tokens(&served.id, prompt, completion, usage.is_estimated);
        if usage.is_contradictory {
            crate::metrics::usage_contradicted(&served.provider.name);
        }
        if prompt + completion > 0 {
            self.charge.set();
        }
        if let Some(span) = &self.span {
            span.used(&self.id, &usage);
        }
        if let Some(tally) = &self.tally {
            tally.settle(self.tokens, prompt + completion);
        }
        self.ledger.end(&self.id, |row| {
            let certainty = if usage.is_estimated { Certainty::Seen } else { Certainty::Reported };
            (row.prompt, row.completion, row.certainty, row.cost) = (prompt, completion, certainty, charge.cost);
            row.details = UsageDetails { kinds, assumed: charge.assumed, ending: Some(ending) };
        });
        charge.cost
    }

    /// Gives the whole reservation back, for a completion that used nothing: its provider was not asked, or refused.
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
        if self.is_asked() {
            tracing::debug!(id = %self.id, "a completion ends unsettled; its reservation counts");
            self.charge.set();
            self.ledger.end(&self.id, UsageRow::set_unheard);
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
