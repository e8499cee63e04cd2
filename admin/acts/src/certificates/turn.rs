//! When an account may order: holds, and the cost of an order.

use std::time::Duration;

use app::App;
use certs::acme::AcmeAuthority;
use db::certificates::{
    accounts::{self, AcmeAccount},
    budgets::{self, RateLimitBucket, TakeOutcome},
    orders::OrderClaim,
};
use domain::{Timestamp, certificates::DomainState};

use super::{
    allowance,
    outcome::{AttemptError, rate_limited},
};

/// The longest hold of all orders of an account after a failure of its authority; the failed order itself waits as long
/// as the authority demanded.
pub(super) const LONGEST_HOLD: Duration = Duration::from_mins(15);

/// Ends an attempt early if the account has no orders left, so that a name known to be ready is not checked again
/// before each order of another one. Takes nothing.
pub(super) async fn ensure_orders_left(app: &App, claim: &OrderClaim) -> Result<(), AttemptError> {
    let now = app.clock.now();
    let was_ready = matches!(claim.state, DomainState::Ordering | DomainState::Renewing);
    let authority = app.certificates.choose(claim.failures).filter(|_| was_ready);
    let Some(directory) = authority.map(AcmeAuthority::directory_url) else { return Ok(()) };
    let Some(stored) = accounts::find_live(&app.db, directory).await? else { return Ok(()) };
    ensure_not_held(&stored, now)?;
    if is_replacement_requested(claim, now) {
        return Ok(());
    }
    let orders = allowance::order_count_buckets(app.certificates.config(), directory, claim.into());
    let mut tx = app.db.begin().await?;
    match budgets::try_take(&mut tx, &stored.id, &orders, now).await? {
        TakeOutcome::All => Ok(()),
        TakeOutcome::NotBefore { at, bucket } => Err(rate_limited(at, &bucket)),
    }
}

pub(super) fn ensure_not_held(stored: &AcmeAccount, now: Timestamp) -> Result<(), AttemptError> {
    // A later time comes from a clock that was wrong.
    match stored.held_until.filter(|until| *until > now && until.since(now) <= LONGEST_HOLD * 2) {
        Some(until) => Err(rate_limited(until, "account")),
        None => Ok(()),
    }
}

/// Returns whether the authority wants the certificate of a row replaced by now. Authorities do not count an order that
/// names the certificate it replaces.
pub(super) fn is_replacement_requested(claim: &OrderClaim, now: Timestamp) -> bool {
    claim.window_starts_at.is_some_and(|start| start <= now)
}

pub(super) async fn charge_buckets(
    app: &App,
    stored: &AcmeAccount,
    buckets: &[RateLimitBucket],
    now: Timestamp,
) -> Result<(), AttemptError> {
    let mut tx = app.db.begin().await?;
    match budgets::try_take(&mut tx, &stored.id, buckets, now).await? {
        TakeOutcome::All => Ok(tx.commit().await?),
        TakeOutcome::NotBefore { at, bucket } => Err(rate_limited(at, &bucket)),
    }
}

/// Refunds the certificate of a failed order. Buckets that count orders are not refunded.
pub(super) async fn refund_certificate(app: &App, claim: &OrderClaim, stored: &AcmeAccount) -> Result<(), sqlx::Error> {
    let buckets = allowance::certificate_buckets(app.certificates.config(), &stored.directory_url, &claim.name);
    refund_buckets(app, stored, &buckets).await
}

pub(super) async fn refund_buckets(
    app: &App,
    stored: &AcmeAccount,
    buckets: &[RateLimitBucket],
) -> Result<(), sqlx::Error> {
    for bucket in buckets.iter().filter(|bucket| bucket.is_taken) {
        budgets::refund(&app.db, &stored.id, bucket, app.clock.now()).await?;
    }
    Ok(())
}

/// Holds what the authority rate-limited for as long as it asked, for all requesters. The whole account is held only
/// once names of several payers were refused, by messages that name none of their domains.
pub(super) async fn hold(
    app: &App,
    claim: &OrderClaim,
    stored: &AcmeAccount,
    said: &str,
    after: Duration,
) -> Result<(), sqlx::Error> {
    let now = app.clock.now();
    for (bucket, time) in allowance::holds_after_refusal(&claim.name, after) {
        budgets::hold(&app.db, &stored.id, &bucket, now + time).await?;
    }
    let Some((bucket, time)) = allowance::payer_hold(claim.into(), said, after) else { return Ok(()) };
    budgets::hold(&app.db, &stored.id, &bucket, now + time).await?;
    let payers = budgets::count_held(&app.db, &stored.id, allowance::HELD_PAYERS, now).await?;
    if payers >= allowance::PAYERS_BEFORE_ACCOUNT {
        let (bucket, time) = allowance::account_hold(after);
        budgets::hold(&app.db, &stored.id, bucket, now + time).await?;
    }
    Ok(())
}
