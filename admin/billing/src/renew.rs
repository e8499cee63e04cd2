//! Renewals: what is due for a subscription at the end of its month, and when a failed charge is retried.

use std::time::Duration;

use ::payments::ProviderKind;
use app::{App, change::Change, metrics};
use db::{
    audit::Actor,
    billing::{
        payments::{self, Payment},
        subscriptions::{self, DueSubscription, Subscription},
    },
};
use domain::{
    SubscriptionId,
    billing::{Cents, payment::PaymentSequence, subscription::EndReason},
    changes::ChangeSubject,
};
use futures_util::{StreamExt as _, stream};

use super::{
    PaymentTerms, charge::charge, checkout::new_payment, end::end, schedule::next_renewal_retry, terms::TermsError,
    upgrade,
};

pub(crate) const CHARGES_AT_A_TIME: usize = 32;
/// How long to wait before retrying a subscription that cannot be charged because of a problem on our side.
const PAUSE: Duration = Duration::from_hours(6);

/// Does what is due for at most `limit` subscriptions: ends them, or records their charges and then sends these to the
/// provider. Returns how many were due. If it is interrupted, a job finds the recorded charges.
pub async fn renew_due(app: &App, limit: i64) -> anyhow::Result<usize> {
    let (count, charges) = match renew_batch(app, limit).await {
        Ok(begun) => begun,
        Err(error) => {
            tracing::warn!(%error, "a batch of renewals failed; each of them is done by itself");
            renew_each(app, limit).await?
        }
    };
    let Some(provider) = app.payments.as_deref() else { return Ok(count) };
    let charging = stream::iter(charges).map(async |payment: Payment| {
        let charged = charge(app, provider, &payment).await;
        charged.err().map(|error| (payment, error))
    });
    let failures = charging.buffer_unordered(CHARGES_AT_A_TIME).filter_map(std::future::ready);
    let failures: Vec<_> = failures.collect().await;
    if let Some((payment, error)) = failures.first() {
        let (failed, error) = (failures.len(), format!("{error:#}"));
        tracing::warn!(%payment.id, failed, error, "charges are left to the job that looks at payments");
    }
    Ok(count)
}

/// Starts what is due for at most `limit` subscriptions, in one transaction. Returns their number and their charges.
async fn renew_batch(app: &App, limit: i64) -> Result<(usize, Vec<Payment>), sqlx::Error> {
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    let due = subscriptions::lock_due(&mut change, now, limit).await?;
    let count = due.len();
    let mut charges = Vec::with_capacity(count);
    for mut subscription in due {
        charges.extend(renew(app, &mut change, &mut subscription).await?);
        subscriptions::store(&mut change, &subscription).await?;
    }
    change.commit_without_waiting().await?;
    Ok((count, charges))
}

/// Does what [`renew_batch`] does, with one transaction for each subscription. A subscription that fails is
/// postponed, so that it does not block those behind it.
async fn renew_each(app: &App, limit: i64) -> Result<(usize, Vec<Payment>), sqlx::Error> {
    let now = app.clock.now();
    let due = subscriptions::list_due(&app.db, now, limit).await?;
    let mut charges = Vec::new();
    for DueSubscription { id, since } in &due {
        match renew_one(app, id).await {
            Ok(charge) => charges.extend(charge),
            Err(error) => {
                let next = next_renewal_retry(*since, now);
                subscriptions::postpone(&app.db, id, now, next).await?;
                metrics::renewal_put_off();
                tracing::error!(subscription = %id, %next, %error, "a subscription cannot be renewed, and is put off");
            }
        }
    }
    Ok((due.len(), charges))
}

async fn renew_one(app: &App, id: &SubscriptionId) -> Result<Option<Payment>, sqlx::Error> {
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    let Some(mut subscription) = subscriptions::lock_one_due(&mut change, id, now).await? else { return Ok(None) };
    let charge = renew(app, &mut change, &mut subscription).await?;
    subscriptions::store(&mut change, &subscription).await?;
    change.commit_without_waiting().await?;
    Ok(charge)
}

/// Decides what is due for a locked subscription. Returns the charge that it recorded, if any.
async fn renew(
    app: &App,
    change: &mut Change<'_>,
    subscription: &mut Subscription,
) -> Result<Option<Payment>, sqlx::Error> {
    let now = change.now();
    subscription.next_attempt_at = None;
    if !subscription.status.is_entitled() {
        return Ok(None);
    }
    let of_month = payments::lock_month(change, &subscription.id, subscription.due_period).await?;
    if of_month.iter().any(Payment::is_live) {
        return Ok(None);
    }
    // Those who left before anything was cancelled for them, too.
    if subscription.cancel_at_period_end || subscriptions::has_payer_left(&mut **change, &subscription.id).await? {
        end(app, change, subscription, EndReason::Canceled).await?;
        return Ok(None);
    }
    if subscription.due_period > subscription.period && !upgrade::is_unpaid(app, change, subscription).await? {
        let next = subscription.next_plan.take().filter(|next| app.plans().find(next).is_some());
        if let Some(next) = next {
            subscription.plan = next;
            change.touch(ChangeSubject::Plan(subscription.account.clone().into()));
        }
    }
    let (terms, provider) =
        match (PaymentTerms::for_next_charge(app, change, subscription).await, app.payments.as_deref()) {
            (Ok(terms), Some(provider)) => (terms, provider.kind()),
            (Err(TermsError::Db(error)), _) => return Err(error),
            (terms, _) => {
                let error =
                    terms.err().map_or_else(|| "there is no payment provider".to_owned(), |error| error.to_string());
                tracing::error!(subscription = %subscription.id, error, "a subscription cannot be charged");
                subscription.next_attempt_at = Some(now + PAUSE);
                return Ok(None);
            }
        };
    if terms.amounts.total == Cents::ZERO {
        subscription.begin_period(subscription.due_period);
        return Ok(None);
    }
    record_charge(change, subscription, &of_month, &terms, provider).await.map(Some)
}

async fn record_charge(
    change: &mut Change<'_>,
    subscription: &Subscription,
    of_month: &[Payment],
    terms: &PaymentTerms,
    provider: ProviderKind,
) -> Result<Payment, sqlx::Error> {
    let attempt = of_month.iter().map(|payment| payment.attempt.saturating_add(1)).max().unwrap_or(0);
    let (account, period, now) = (&subscription.account, subscription.due_period, change.now());
    let payment =
        new_payment(account, &subscription.id, PaymentSequence::Recurring, period, attempt, terms, provider, now)?;
    payments::insert(change, &payment).await?;
    Ok(payment)
}
