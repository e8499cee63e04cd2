//! An in-memory provider that fails on command.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use ::payments::{
    MandateState, PaymentError, PaymentOrder, PaymentProvider, ProviderKind, ProviderPayment, ProviderReversal,
    RefundOrder,
};
use async_trait::async_trait;
use domain::{
    Account, EmailAddress, PaymentId, UserId,
    billing::{
        Cents,
        payment::{PaymentSequence, PaymentState, ReversalKind, ReversalState},
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderFault {
    None,
    /// The call has no effect and gets no response.
    Away,
    /// The call takes effect, but its response is lost.
    AnswerLost,
    /// The provider demands a pause of a minute.
    Busy,
}

pub(super) struct ProviderState {
    pub(super) payments: Vec<ProviderPayment>,
    pub(super) recurring: PaymentState,
    pub(super) mandate: MandateState,
    pub(super) refuses: bool,
    pub(super) faults: VecDeque<ProviderFault>,
    pub(super) calls: BTreeMap<&'static str, usize>,
    /// The customer of each payment.
    pub(super) customers: Vec<String>,
}

pub(super) struct ScriptedProvider {
    known: Mutex<ProviderState>,
}

impl Default for ScriptedProvider {
    fn default() -> Self {
        let known = Mutex::new(ProviderState {
            payments: Vec::new(),
            recurring: PaymentState::Paid,
            mandate: MandateState::Valid,
            refuses: false,
            faults: VecDeque::new(),
            calls: BTreeMap::new(),
            customers: Vec::new(),
        });
        Self { known }
    }
}

impl ScriptedProvider {
    pub(super) fn known(&self) -> MutexGuard<'_, ProviderState> {
        self.known.lock().unwrap()
    }

    pub(super) fn set(&self, id: &str, state: PaymentState) {
        let mut known = self.known();
        known.payments.iter_mut().find(|payment| payment.id == id).unwrap().state = state;
    }

    pub(super) fn reverse(&self, id: &str, kind: ReversalKind, total: Cents, state: ReversalState) -> String {
        let mut known = self.known();
        let payment = known.payments.iter_mut().find(|payment| payment.id == id).unwrap();
        let reversal = format!("{}_{}", payment.id, payment.reversals.len());
        payment.reversals.push(ProviderReversal { id: reversal.clone(), order: None, kind, total, state });
        reversal
    }

    pub(super) fn move_reversals(&self, from: ReversalState, to: ReversalState) {
        let mut known = self.known();
        for reversal in known.payments.iter_mut().flat_map(|payment| &mut payment.reversals) {
            if reversal.state == from {
                reversal.state = to;
            }
        }
    }

    pub(super) fn last(&self) -> ProviderPayment {
        self.known().payments.last().unwrap().clone()
    }

    pub(super) fn call_ok_then(&self, fault: ProviderFault) {
        self.known().faults.extend([ProviderFault::None, fault]);
    }

    pub(super) fn calls(&self, name: &str) -> usize {
        self.known().calls.get(name).copied().unwrap_or(0)
    }

    async fn call<T>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut ProviderState) -> Result<T, PaymentError>,
    ) -> Result<T, PaymentError> {
        // Points at which a program may be killed: before the provider is contacted, and before its response arrives.
        tokio::task::yield_now().await;
        let answer = self.answer(name, work);
        tokio::task::yield_now().await;
        answer
    }

    fn answer<T>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut ProviderState) -> Result<T, PaymentError>,
    ) -> Result<T, PaymentError> {
        let mut known = self.known();
        *known.calls.entry(name).or_default() += 1;
        let away = |retry_after| PaymentError::Unavailable { reason: "scripted".into(), retry_after };
        match known.faults.pop_front() {
            Some(ProviderFault::Away) => Err(away(None)),
            Some(ProviderFault::Busy) => Err(away(Some(Duration::from_mins(1)))),
            Some(ProviderFault::AnswerLost) => work(&mut known).and_then(|_| Err(away(None))),
            Some(ProviderFault::None) | None => work(&mut known),
        }
    }
}

#[async_trait]
impl PaymentProvider for ScriptedProvider {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mollie
    }

    async fn create_customer(
        &self,
        account: &Account,
        payer: Option<&UserId>,
        _name: &str,
        _email: Option<&EmailAddress>,
    ) -> Result<String, PaymentError> {
        let payer = payer.map(|payer| format!("_{payer}")).unwrap_or_default();
        self.call("create_customer", |_| Ok(format!("cst_{account}{payer}"))).await
    }

    async fn create_payment(&self, order: &PaymentOrder<'_>) -> Result<ProviderPayment, PaymentError> {
        self.call("create_payment", |known| {
            if known.refuses {
                return Err(PaymentError::Refused("scripted".into()));
            }
            let is_same = |id: &Option<PaymentId>| id.as_ref() == Some(order.id);
            if let Some(made) = known.payments.iter().find(|payment| is_same(&payment.order)) {
                return Ok(made.clone());
            }
            let is_first = order.sequence == PaymentSequence::First;
            let payment = ProviderPayment {
                id: format!("tr_{}", order.id.body()),
                order: Some(order.id.clone()),
                state: if is_first { PaymentState::Open } else { known.recurring },
                total: order.total,
                method: None,
                failure: None,
                checkout_url: is_first.then(|| format!("https://pay.example/{}", order.id).parse().unwrap()),
                reversals: Vec::new(),
            };
            known.payments.push(payment.clone());
            known.customers.push(order.customer_id.to_owned());
            Ok(payment)
        })
        .await
    }

    async fn payment(&self, provider_id: &str) -> Result<ProviderPayment, PaymentError> {
        self.call("payment", |known| {
            let found = known.payments.iter().find(|payment| payment.id == provider_id);
            found.cloned().ok_or(PaymentError::Unknown)
        })
        .await
    }

    async fn find_payment(
        &self,
        order: &PaymentId,
        _customer_id: &str,
    ) -> Result<Option<ProviderPayment>, PaymentError> {
        self.call("find_payment", |known| {
            Ok(known.payments.iter().find(|payment| payment.order.as_ref() == Some(order)).cloned())
        })
        .await
    }

    async fn mandate(&self, _customer_id: &str) -> Result<MandateState, PaymentError> {
        self.call("mandate", |known| Ok(known.mandate)).await
    }

    async fn refund(&self, refund: &RefundOrder<'_>) -> Result<ProviderReversal, PaymentError> {
        self.call("refund", |known| {
            let payment = known.payments.iter_mut().find(|payment| payment.id == refund.payment_id);
            let payment = payment.ok_or(PaymentError::Unknown)?;
            if let Some(made) = payment.reversals.iter().find(|made| made.order.as_ref() == Some(refund.id)) {
                return Ok(made.clone());
            }
            let back = |reversal: &&ProviderReversal| reversal.state != ReversalState::Canceled;
            let back: i64 = payment.reversals.iter().filter(back).map(|reversal| reversal.total.0).sum();
            if payment.state != PaymentState::Paid || back + refund.total.0 > payment.total.0 {
                return Err(PaymentError::Refused("there is not so much left".into()));
            }
            let reversal = ProviderReversal {
                id: format!("re_{}", refund.id.body()),
                order: Some(refund.id.clone()),
                kind: ReversalKind::Refund,
                total: refund.total,
                state: ReversalState::Pending,
            };
            payment.reversals.push(reversal.clone());
            Ok(reversal)
        })
        .await
    }
}
