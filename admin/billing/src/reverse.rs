//! Reversals: refunds and charge-backs that the provider reports, their credit notes, and what a charge-back means for
//! the subscription.

use ::payments::ProviderReversal;
use app::{App, change::Change};
use db::billing::{
    customers,
    payments::{self, Payment},
    reversals::{self, PaymentReversal},
};
use domain::{
    ReversalId,
    audit::Action,
    billing::{
        payment::{ReversalKind, ReversalState},
        subscription::{EndReason, SubscriptionStatus},
    },
};
use mail::notices::{Notice, notify};

use super::{
    audit,
    end::end,
    invoice,
    schedule::{REFUND_LISTED_WITHIN, next_charge_attempt},
    settle::{PaymentContext, refund_surplus},
};

/// Applies the reversals that the provider reports for a paid payment. If `is_complete`, the list holds all there are:
/// a reversal that it no longer lists was cancelled.
pub(super) async fn apply_reversals(
    app: &App,
    change: &mut Change<'_>,
    case: &mut PaymentContext,
    told: &[ProviderReversal],
    is_complete: bool,
) -> anyhow::Result<()> {
    let mut known = reversals::list_for_payment(&mut **change, &case.payment.id).await?;
    if known.is_empty() && told.is_empty() {
        return Ok(());
    }
    let now = change.now();
    for told in told {
        let is_told = |reversal: &PaymentReversal| {
            let is_ours = told.order.as_ref() == Some(&reversal.id);
            is_ours || (reversal.kind == told.kind && reversal.provider_id.as_deref() == Some(&*told.id))
        };
        let place = known.iter().position(is_told).unwrap_or(known.len());
        if place == known.len() {
            known.push(PaymentReversal {
                id: ReversalId::new(now),
                payment_id: case.payment.id.clone(),
                kind: told.kind,
                total_cents: told.total,
                state: ReversalState::Pending,
                provider_id: None,
                reason: None,
                created_at: now,
                settled_at: None,
            });
        }
        known[place].provider_id.get_or_insert_with(|| told.id.clone());
        set_reversal_state(app, change, case, &mut known[place], told.state).await?;
    }
    if is_complete {
        for reversal in &mut known {
            let is_named = told.iter().any(|told| Some(&*told.id) == reversal.provider_id.as_deref());
            let may_be_late = now.since(reversal.created_at) < REFUND_LISTED_WITHIN;
            let is_asked = reversal.provider_id.is_some() && reversal.state == ReversalState::Pending;
            if is_asked && !is_named && !may_be_late {
                set_reversal_state(app, change, case, reversal, ReversalState::Canceled).await?;
            }
        }
    }
    Ok(invoice::update_status(change, &case.payment, &known).await?)
}

async fn set_reversal_state(
    app: &App,
    change: &mut Change<'_>,
    case: &mut PaymentContext,
    reversal: &mut PaymentReversal,
    state: ReversalState,
) -> anyhow::Result<()> {
    let before = reversal.state;
    let is_news = match (before, state) {
        // A late report of an earlier state.
        (ReversalState::Done | ReversalState::Canceled, ReversalState::Pending) => false,
        // It was credited and invoiced again; a third document about it needs a person's decision.
        (ReversalState::Canceled, ReversalState::Done)
            if reversal.settled_at.is_some() && was_done(change, reversal).await? =>
        {
            case.record_difference(format!("the {:?} {} was called off, and is done now", reversal.kind, reversal.id));
            false
        }
        _ => before != state,
    };
    if is_news {
        reversal.state = state;
        reversal.settled_at = Some(change.now()).filter(|_| state != ReversalState::Pending);
    }
    reversals::store(change, reversal).await?;
    match (is_news, before, state) {
        (true, _, ReversalState::Done) => {
            invoice::issue_credit_note(change, &case.payment, &case.terms, reversal).await?;
            if reversal.kind == ReversalKind::Chargeback {
                charge_back(app, change, case, reversal).await?;
            }
        }
        (true, ReversalState::Done, ReversalState::Canceled) => {
            invoice::restore(change, &case.payment, &case.terms, reversal).await?;
            if reversal.kind == ReversalKind::Chargeback {
                undo_charge_back(change, case).await?;
            }
        }
        _ => {}
    }
    Ok(())
}

async fn was_done(change: &mut Change<'_>, reversal: &PaymentReversal) -> Result<bool, sqlx::Error> {
    let issued = db::billing::invoices::list_for_payment(&mut **change, &reversal.payment_id).await?;
    Ok(issued.iter().any(|note| note.reversal_id.as_ref() == Some(&reversal.id)))
}

/// Applies a charge-back. If it concerns the present month, that month becomes due again, unless the next one is being
/// charged.
async fn charge_back(
    app: &App,
    change: &mut Change<'_>,
    case: &mut PaymentContext,
    reversal: &PaymentReversal,
) -> anyhow::Result<()> {
    let now = change.now();
    let issued = db::billing::invoices::list_for_payment(&mut **change, &case.payment.id).await?;
    if let Some(invoice) = invoice::find_original(&issued) {
        let notice = Notice::ChargedBack { number: invoice.number.clone(), total: reversal.total_cents };
        notify(change, &case.payment.account, &format!("charged_back/{}", reversal.id), &notice, None, now).await?;
    }
    let covered = std::mem::replace(&mut case.payment.covers, false);
    let PaymentContext { payment, subscription, .. } = case;
    let is_present = subscription.status.is_entitled()
        && payment.period == subscription.period
        && subscription.due_period > subscription.period;
    if !covered {
        return Ok(());
    }
    let of_next_month = payments::lock_month(change, &subscription.id, subscription.due_period).await?;
    if !is_present || of_next_month.iter().any(Payment::is_live) {
        // A past month cannot be charged again, and the account gets no further one on credit.
        if subscription.status.is_entitled() && payment.period <= subscription.period {
            subscription.cancel_at_period_end = true;
            audit(change, &payment.account, Action::BillingRenewal, "charged_back", &subscription.plan).await?;
        }
        return Ok(());
    }
    if subscription.cancel_at_period_end {
        return Ok(end(app, change, subscription, EndReason::Canceled).await?);
    }
    subscription.due_period = subscription.period;
    subscription.status = SubscriptionStatus::PastDue;
    subscription.failures = 1;
    subscription.next_attempt_at = next_charge_attempt(subscription.failures, now);
    Ok(())
}

/// Applies the return of charged-back money: it pays its month again, or is refunded if that month was paid otherwise.
///
/// If the subscription ended for lack of that money, it resumes while the month lasts and the account has no other
/// subscription; afterwards the money is refunded, because the account did not get the whole month.
async fn undo_charge_back(change: &mut Change<'_>, case: &mut PaymentContext) -> anyhow::Result<()> {
    let now = change.now();
    let account_exists = customers::exists(&mut **change, &case.payment.account).await?;
    let PaymentContext { payment, subscription, .. } = &*case;
    let (is_entitled, due) = (subscription.status.is_entitled(), subscription.due_period);
    let is_of_subscription = subscription.anchored_at.is_some() && payment.period <= due;
    let end_of_month = subscription.month_start(payment.period.saturating_add(1));
    let is_cut_off = subscription.ended_at.zip(end_of_month).is_some_and(|(ended, end)| ended < end);
    let can_go_on = account_exists && case.is_month_current(now) && !case.has_other_entitled_subscription();
    let is_had = is_of_subscription && (!is_cut_off || can_go_on);
    if !is_had || case.has_other_live_payment() {
        return Ok(refund_surplus(change, &case.payment).await?);
    }
    case.payment.covers = true;
    if is_cut_off {
        case.revive(change).await?;
    } else if is_entitled && due == case.payment.period {
        case.subscription.status = SubscriptionStatus::Active;
        case.subscription.begin_period(case.payment.period);
    }
    Ok(())
}
