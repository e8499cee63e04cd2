//! Applies what the provider reports about a payment. Everything goes through [`settle`]: a report that is repeated,
//! late or out of order changes nothing that it has changed before.

use ::payments::{PaymentError, ProviderPayment};
use app::{App, change::Change};
use db::{
    audit::Actor,
    billing::{
        customers,
        payments::{self, Payment},
        reversals::{self, PaymentReversal},
        subscriptions::{self, Subscription},
    },
};
use domain::{
    ReversalId, Timestamp,
    audit::Action,
    billing::{
        payment::{PaymentSequence, PaymentState, ReversalKind, ReversalState},
        subscription::{EndReason, SubscriptionStatus},
    },
    changes::ChangeSubject,
};
use mail::notices::{Notice, notify};

use super::{
    PaymentTerms, audit,
    end::end,
    invoice, publish_billing_event, reverse,
    schedule::{LOST_WAIT, next_charge_attempt, next_poll},
};

const SURPLUS_REASON: &str = "paid although nothing was left to be bought with it";

/// The prefix of the note that the provider has two payments for one of ours.
const SECOND_PAYMENT_NOTE: &str = "the provider has a second payment for it";

#[derive(Debug, Clone, Copy)]
pub(super) enum PaymentReport<'a> {
    /// The provider returned the payment in this state.
    Provider(&'a ProviderPayment),
    /// The provider refused to make the payment, for this reason.
    Refused(&'a str),
    /// The provider does not know the payment, or its payer.
    Unknown,
    /// The payment belongs to a provider other than the configured one.
    Elsewhere,
}

/// Reads a payment at the provider, and settles what it reports. A payment that is not ours is no error.
pub async fn poll_by_provider_id(app: &App, provider_id: &str) -> anyhow::Result<()> {
    let Some(provider) = app.payments.as_deref() else { return Ok(()) };
    let said = match provider.payment(provider_id).await {
        Ok(said) => said,
        Err(PaymentError::Unknown) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let kind = provider.kind().as_str();
    let by_id = payments::find_at_provider(&app.db, kind, &said.id).await?;
    let found = match (by_id, &said.order) {
        // The response with the provider's id was lost.
        (None, Some(order)) => payments::find(&app.db, order).await?.filter(|payment| payment.provider == kind),
        (found, _) => found,
    };
    match found {
        Some(payment) => settle(app, &payment, PaymentReport::Provider(&said)).await,
        None => Ok(()),
    }
}

/// A payment and its subscription, locked with everything that decides their next state.
pub(super) struct PaymentContext {
    pub(super) payment: Payment,
    pub(super) others_of_month: Vec<Payment>,
    pub(super) subscription: Subscription,
    pub(super) other_subscriptions: Vec<Subscription>,
    pub(super) terms: PaymentTerms,
}

impl PaymentContext {
    /// Locks the account's subscriptions, then the payments of the month.
    pub(super) async fn lock(change: &mut Change<'_>, payment: &Payment) -> anyhow::Result<Self> {
        let (of_account, other_subscriptions): (Vec<_>, Vec<_>) = subscriptions::lock(change, &payment.account)
            .await?
            .into_iter()
            .partition(|subscription| subscription.id == payment.subscription_id);
        let (of_month, others_of_month): (Vec<_>, Vec<_>) =
            payments::lock_month(change, &payment.subscription_id, payment.period)
                .await?
                .into_iter()
                .partition(|other| other.id == payment.id);
        let gone = || anyhow::anyhow!("payment {} is gone", payment.id);
        let subscription = of_account.into_iter().next().ok_or_else(gone)?;
        let payment = of_month.into_iter().next().ok_or_else(gone)?;
        let terms = serde_json::from_value(payment.terms.clone())?;
        Ok(Self { payment, others_of_month, subscription, other_subscriptions, terms })
    }

    pub(super) async fn store(mut self, change: &mut Change<'_>) -> Result<(), sqlx::Error> {
        let back = reversals::list_for_payment(&mut **change, &self.payment.id).await?;
        let pending = || back.iter().filter(|reversal| reversal.state == ReversalState::Pending);
        let now = change.now();
        let is_to_be_asked = pending().any(|reversal| reversal.provider_id.is_none());
        let next = next_poll(&self.payment, pending().next().is_some(), now);
        self.payment.next_look_at = if is_to_be_asked { Some(now) } else { next };
        self.payment.look_failures = 0;
        payments::store(change, &self.payment).await?;
        subscriptions::store(change, &self.subscription).await
    }

    /// Returns whether another payment pays for the month, or may yet.
    pub(super) fn has_other_live_payment(&self) -> bool {
        self.others_of_month.iter().any(Payment::is_live)
    }

    pub(super) fn has_other_entitled_subscription(&self) -> bool {
        self.other_subscriptions.iter().any(|other| other.status.is_entitled())
    }

    pub(super) fn is_month_current(&self, now: Timestamp) -> bool {
        let end = self.subscription.month_start(self.payment.period.saturating_add(1));
        end.is_some_and(|end| end > now)
    }

    /// Starts the subscription with the payment's month, or resumes an ended subscription for the rest of that month.
    pub(super) async fn revive(&mut self, change: &mut Change<'_>) -> Result<(), sqlx::Error> {
        let now = change.now();
        let Self { payment, subscription, .. } = self;
        subscription.status = SubscriptionStatus::Active;
        subscription.plan.clone_from(&payment.plan);
        subscription.anchored_at.get_or_insert(now);
        (subscription.ended_at, subscription.end_reason) = (None, None);
        subscription.begin_period(payment.period);
        change.touch(ChangeSubject::Plan(payment.account.clone().into()));
        audit(change, &payment.account, Action::BillingPlan, "paid", &payment.plan).await
    }

    /// Records a report of the provider that contradicts the ledger.
    pub(super) fn record_difference(&mut self, difference: String) {
        tracing::error!(payment = %self.payment.id, difference, "the payment provider says what cannot be followed");
        self.payment.difference = Some(difference);
    }
}

/// Applies a report about a payment in one transaction: its state, the entitlement, the invoice and its letter, and
/// reversals.
pub(super) async fn settle(app: &App, payment: &Payment, word: PaymentReport<'_>) -> anyhow::Result<()> {
    let mut change = app.change(Actor::Platform).await?;
    let mut case = PaymentContext::lock(&mut change, payment).await?;
    match word {
        // Only a payment that the provider does not have can have been refused.
        PaymentReport::Refused(reason) if case.payment.state == PaymentState::Intended => {
            record_failed(app, &mut change, &mut case, PaymentState::Failed, Some(reason)).await?;
        }
        PaymentReport::Unknown
            if case.payment.state.is_under_way() && case.payment.sequence == PaymentSequence::First =>
        {
            record_failed(app, &mut change, &mut case, PaymentState::Expired, None).await?;
        }
        PaymentReport::Unknown if case.payment.state.is_under_way() => {
            record_lost(app, &mut change, &mut case, "the provider does not know it").await?;
        }
        PaymentReport::Elsewhere if case.payment.state.is_under_way() => {
            record_lost(app, &mut change, &mut case, "its provider is not the configured one").await?;
        }
        PaymentReport::Refused(_) | PaymentReport::Unknown | PaymentReport::Elsewhere => {}
        PaymentReport::Provider(said) => apply_provider_state(app, &mut change, &mut case, said).await?,
    }
    if case.payment.state != payment.state {
        let org = match case.payment.account.as_org() {
            Some(org) => db::orgs::find_name(&mut *change, org).await?,
            None => None,
        };
        publish_billing_event(
            &mut change,
            &case.payment.account,
            org,
            &[("what", "payment"), ("state", case.payment.state.as_str())],
        );
    }
    case.store(&mut change).await?;
    change.commit_without_waiting().await?;
    Ok(())
}

async fn apply_provider_state(
    app: &App,
    change: &mut Change<'_>,
    case: &mut PaymentContext,
    said: &ProviderPayment,
) -> anyhow::Result<()> {
    let id = case.payment.provider_id.get_or_insert_with(|| said.id.clone());
    if *id != said.id {
        let difference = format!("{SECOND_PAYMENT_NOTE}, {}", said.id);
        case.record_difference(difference);
        return Ok(());
    }
    if said.total != case.payment.total_cents {
        case.record_difference(format!(
            "the provider has it with {} instead of {}",
            said.total, case.payment.total_cents
        ));
        return Ok(());
    }
    // An operator must resolve a second payment, whatever happens to the first.
    if !case.payment.difference.as_deref().is_some_and(|difference| difference.starts_with(SECOND_PAYMENT_NOTE)) {
        case.payment.difference = None;
    }
    case.payment.lost_since = None;
    if said.method.is_some() {
        case.payment.method.clone_from(&said.method);
    }
    let (before, is_under_way) = (case.payment.state, case.payment.state.is_under_way());
    match said.state {
        PaymentState::Intended | PaymentState::Open if is_under_way => {
            case.payment.state = PaymentState::Open;
            case.payment.checkout_url = said.checkout_url.as_ref().map(ToString::to_string);
        }
        PaymentState::Paid if before != PaymentState::Paid => record_paid(app, change, case).await?,
        PaymentState::Failed | PaymentState::Canceled | PaymentState::Expired if is_under_way => {
            record_failed(app, change, case, said.state, said.failure.as_deref()).await?;
        }
        PaymentState::Failed | PaymentState::Canceled | PaymentState::Expired if before == PaymentState::Paid => {
            case.record_difference(format!("it was paid, and is {:?} now", said.state));
        }
        // A repeated report, or a late one of an earlier state.
        _ => {}
    }
    if case.payment.state == PaymentState::Paid {
        reverse::apply_reversals(app, change, case, &said.reversals, true).await?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PurchasedItem {
    /// The subscription's first month, starting now.
    Start,
    /// The month that is due.
    Month,
    /// The rest of the month for which the subscription ended unpaid.
    Revival,
    /// Nothing: the payment is refunded.
    Nothing,
}

impl PurchasedItem {
    fn for_payment(case: &PaymentContext, account_exists: bool, now: Timestamp) -> Self {
        let PaymentContext { payment, subscription, .. } = case;
        if !account_exists || case.has_other_live_payment() {
            return Self::Nothing;
        }
        let is_due = payment.period == subscription.due_period;
        if subscription.status.is_entitled() {
            return if is_due { Self::Month } else { Self::Nothing };
        }
        if case.has_other_entitled_subscription() {
            return Self::Nothing;
        }
        let is_unpaid = subscription.end_reason == Some(EndReason::Unpaid);
        match payment.sequence {
            PaymentSequence::First if subscription.anchored_at.is_none() => Self::Start,
            PaymentSequence::Recurring if is_due && is_unpaid && case.is_month_current(now) => Self::Revival,
            PaymentSequence::First | PaymentSequence::Recurring => Self::Nothing,
        }
    }
}

async fn record_paid(app: &App, change: &mut Change<'_>, case: &mut PaymentContext) -> anyhow::Result<()> {
    let now = change.now();
    let account_exists = customers::exists(&mut **change, &case.payment.account).await?;
    supersede_former_payer(change, case).await?;
    let purchase = PurchasedItem::for_payment(case, account_exists, now);
    case.payment.state = PaymentState::Paid;
    case.payment.settled_at = Some(now);
    case.payment.failure = None;
    match purchase {
        PurchasedItem::Start | PurchasedItem::Revival => case.revive(change).await?,
        PurchasedItem::Month => {
            case.subscription.status = SubscriptionStatus::Active;
            case.subscription.begin_period(case.payment.period);
            // A plan that came by an upgrade makes its full credit available from now on.
            change.touch(ChangeSubject::Plan(case.payment.account.clone().into()));
        }
        PurchasedItem::Nothing => {
            case.payment.covers = false;
            // This subscription waits for no other payment.
            if case.subscription.status == SubscriptionStatus::Pending {
                end(app, change, &mut case.subscription, EndReason::Replaced).await?;
            }
        }
    }
    let PaymentContext { payment, subscription, terms, .. } = case;
    // Store the payment before the invoice's series is locked.
    payments::store(change, payment).await?;
    invoice::issue(change, payment, terms, subscription).await?;
    if purchase == PurchasedItem::Nothing {
        refund_surplus(change, payment).await?;
    }
    Ok(())
}

/// Ends a cancelled subscription whose payer has left, for which another owner has paid the next one now.
async fn supersede_former_payer(change: &mut Change<'_>, case: &mut PaymentContext) -> Result<(), sqlx::Error> {
    let PaymentContext { payment, subscription, other_subscriptions, .. } = case;
    if payment.sequence != PaymentSequence::First || subscription.anchored_at.is_some() {
        return Ok(());
    }
    let Some(other) = other_subscriptions.iter_mut().find(|other| other.status.is_entitled()) else { return Ok(()) };
    let is_superseded = other.cancel_at_period_end
        && other.payer != subscription.payer
        && subscriptions::is_mandate_gone(&mut **change, other).await?
        && !subscriptions::is_mandate_gone(&mut **change, subscription).await?;
    if is_superseded {
        other.status = SubscriptionStatus::Ended;
        (other.ended_at, other.end_reason) = (Some(change.now()), Some(EndReason::Replaced));
        (other.next_attempt_at, other.next_plan) = (None, None);
        subscriptions::store(change, other).await?;
    }
    Ok(())
}

/// Records a refund of whatever part of the payment is not refunded yet; a job requests it from the provider.
pub(super) async fn refund_surplus(change: &mut Change<'_>, payment: &Payment) -> Result<(), sqlx::Error> {
    let now = change.now();
    let back = reversals::list_for_payment(&mut **change, &payment.id).await?;
    let back = back.iter().filter(|reversal| reversal.state != ReversalState::Canceled);
    let total_cents = domain::billing::Cents(payment.total_cents.0 - back.map(|r| r.total_cents.0).sum::<i64>());
    if total_cents.0 <= 0 {
        return Ok(());
    }
    let reversal = PaymentReversal {
        id: ReversalId::new(now),
        payment_id: payment.id.clone(),
        kind: ReversalKind::Refund,
        total_cents,
        state: ReversalState::Pending,
        provider_id: None,
        reason: Some(SURPLUS_REASON.to_owned()),
        created_at: now,
        settled_at: None,
    };
    reversals::store(change, &reversal).await
}

/// Records, for an operator to see, that the state of a payment is unknown. A payment that stays unknown fails in the
/// end: the charge is repeated where possible, and no account keeps a plan for nothing.
async fn record_lost(
    app: &App,
    change: &mut Change<'_>,
    case: &mut PaymentContext,
    reason: &str,
) -> anyhow::Result<()> {
    let now = change.now();
    let payment = &mut case.payment;
    let since = *payment.lost_since.get_or_insert(now);
    if now.since(since) < LOST_WAIT {
        if payment.difference.is_none() {
            case.record_difference(reason.to_owned());
        }
        return Ok(());
    }
    tracing::error!(payment = %payment.id, provider_id = payment.provider_id, reason, "a lost payment counts as failed");
    let state = if payment.sequence == PaymentSequence::First { PaymentState::Expired } else { PaymentState::Failed };
    record_failed(app, change, case, state, Some(reason)).await
}

async fn record_failed(
    app: &App,
    change: &mut Change<'_>,
    case: &mut PaymentContext,
    state: PaymentState,
    failure: Option<&str>,
) -> anyhow::Result<()> {
    let payment = &mut case.payment;
    payment.state = state;
    payment.settled_at = Some(change.now());
    payment.failure = failure.map(ToOwned::to_owned);
    if payment.lost_since.take().is_some() {
        payment.difference = None;
    }
    if case.has_other_live_payment() {
        return Ok(());
    }
    let subscription = &mut case.subscription;
    match subscription.status {
        SubscriptionStatus::Pending => {
            end(app, change, subscription, EndReason::NeverPaid).await?;
        }
        SubscriptionStatus::Active | SubscriptionStatus::PastDue if case.payment.period == subscription.due_period => {
            schedule_retry(app, change, case).await?;
        }
        SubscriptionStatus::Active | SubscriptionStatus::PastDue | SubscriptionStatus::Ended => {}
    }
    Ok(())
}

/// Schedules a retry of the failed charge, or ends the subscription after the last attempt.
async fn schedule_retry(app: &App, change: &mut Change<'_>, case: &mut PaymentContext) -> Result<(), sqlx::Error> {
    let PaymentContext { payment, subscription, terms, .. } = case;
    if subscription.cancel_at_period_end {
        return end(app, change, subscription, EndReason::Canceled).await;
    }
    let now = change.now();
    subscription.failures = subscription.failures.saturating_add(1);
    subscription.status = SubscriptionStatus::PastDue;
    subscription.next_attempt_at = next_charge_attempt(subscription.failures, now);
    let notice = Notice::PaymentFailed {
        plan: terms.plan_name.clone(),
        total: payment.total_cents,
        next_attempt: subscription.next_attempt_at,
    };
    notify(change, &payment.account, &format!("payment_failed/{}", payment.id), &notice, None, now).await?;
    if subscription.next_attempt_at.is_none() {
        end(app, change, subscription, EndReason::Unpaid).await?;
    }
    Ok(())
}
