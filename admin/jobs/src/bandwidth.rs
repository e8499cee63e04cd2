//! Compares the bandwidth that accounts used this month with their plans. An account is notified at 80 and 100 percent;
//! from 100 percent on, the edges throttle its sites. Only bytes to people count, so that a crawler does not slow an
//! account down.

use std::time::Duration;

use app::App;
use db::{
    audit::Actor,
    billing::bandwidth_levels::{self, BandwidthLevel, BandwidthStanding},
    gateway::free_credit,
    stats::bandwidth,
    upkeep::job_leases,
};
use domain::{
    Account, ChangeSubject,
    month::Month,
    plans::{Plan, Plans},
};
use mail::notices::{Notice, notify};

use super::{BatchOutcome, Job};

const ACCOUNTS: i64 = 10_000;
const ROWS: i64 = 5_000;
/// How long the former owner of a deleted or moved project is remembered. Edges append no older traffic.
const FORMER_OWNERS_KEPT: Duration = Duration::from_hours(7 * 24);

/// Records which accounts have reached a level, or have left one.
pub(super) struct CompareBandwidth;

impl Job for CompareBandwidth {
    const NAME: &'static str = "compare bandwidth with plans";
    const EVERY: Duration = Duration::from_secs(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let month = Month::from_timestamp(app.clock.now());
        let after: Option<Account> =
            job_leases::cursor(&app.db, Self::NAME).await?.and_then(|cursor| cursor.parse().ok());
        let page = bandwidth_levels::page(&app.db, month, after.as_ref(), least_level(app.plans()), ACCOUNTS).await?;
        // Advance first: if this batch is interrupted, the accounts behind it still get their turn. Skipped accounts
        // are compared in the next round.
        job_leases::move_cursor(&app.db, Self::NAME, page.last.as_ref().map(Account::as_str)).await?;
        let mut done = 0;
        for standing in page.standings {
            match compare_account(app, month, &standing).await {
                Ok(is_new) => done += u64::from(is_new),
                // A faulty account must not exempt others from their limits.
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(account = %standing.account, error, "bandwidth could not be compared");
                }
            }
        }
        Ok(BatchOutcome { done, full: page.last.is_some() })
    }
}

/// Deletes counts, levels and free credit of past months, and forgets former owners.
pub(super) struct DeleteBandwidthLevels;

impl Job for DeleteBandwidthLevels {
    const NAME: &'static str = "forget bandwidth levels";
    const EVERY: Duration = Duration::from_hours(6);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        let month = Month::from_timestamp(now);
        let deleted = [
            bandwidth_levels::delete_before(&app.db, month, ROWS).await?,
            bandwidth::delete_before(&app.db, month, ROWS).await?,
            bandwidth::delete_former_owners(&app.db, now - FORMER_OWNERS_KEPT, ROWS).await?,
            free_credit::delete_before(&app.db, month, ROWS).await?,
        ];
        Ok(BatchOutcome { done: deleted.iter().sum(), full: deleted.iter().any(|&rows| rows >= ROWS.unsigned_abs()) })
    }
}

/// Records the level of an account. Returns whether it has changed.
async fn compare_account(app: &App, month: Month, standing: &BandwidthStanding) -> anyhow::Result<bool> {
    let BandwidthStanding { account, used_bytes, is_shared, subscribed, level } = standing;
    let Some((id, plan)) = app.plans().plan_for(subscribed.as_deref()) else { return Ok(false) };
    let reached = percent(*used_bytes, plan).map(|percent| BandwidthLevel { percent, plan: subscribed.clone() });
    if reached == *level {
        return Ok(false);
    }
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    // An admin whose lease expired may have read the level before another one recorded a higher one.
    if !bandwidth_levels::replace(&mut change, account, month, level.as_ref(), reached.as_ref(), now).await? {
        return Ok(false);
    }
    if let Some(BandwidthLevel { percent, .. }) = reached {
        let limit_bytes = plan.limits.bandwidth_bytes;
        let notice =
            Notice::BandwidthReached { percent, plan: plan.name.clone(), month, limit_bytes, is_shared: *is_shared };
        let event = format!("bandwidth/{account}/{month}/{id}/{percent}");
        notify(&mut change, account, &event, &notice, None, now).await?;
    }
    // The edges throttle by the account's present plan, and only at 100 percent.
    let is_over = |level: &Option<BandwidthLevel>| {
        level.as_ref().is_some_and(|level| level.percent == 100 && level.plan == *subscribed)
    };
    if is_over(&reached) != is_over(level) {
        change.touch(ChangeSubject::from(account));
    }
    change.commit_without_waiting().await?;
    Ok(true)
}

/// Returns the number of bytes below which no level is reached on any plan.
fn least_level(plans: &Plans) -> u64 {
    let limits = plans.by_price().into_iter().map(|(_, plan)| plan.limits.bandwidth_bytes);
    // Zero bytes reach no level.
    (limits.min().unwrap_or(0) / 100 * 80).max(1)
}

fn percent(used: u64, plan: &Plan) -> Option<u8> {
    let limit = u128::from(plan.limits.bandwidth_bytes);
    let used = u128::from(used);
    match used {
        0 => None,
        _ if used >= limit => Some(100),
        _ if used * 100 >= limit * 80 => Some(80),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_reached_at_their_byte() {
        let plans = Plans::default();
        let (_, free) = plans.default_plan().unwrap();
        let limit = free.limits.bandwidth_bytes;
        let most = (u64::MAX, Some(100));
        for (used, level) in [
            (0, None),
            (limit / 5 * 4 - 1, None),
            (limit / 5 * 4, Some(80)),
            (limit - 1, Some(80)),
            (limit, Some(100)),
            most,
        ] {
            assert_eq!(percent(used, free), level, "{used}");
        }
        assert!(percent(least_level(&plans) - 1, free).is_none());
        let mut nothing = free.clone();
        nothing.limits.bandwidth_bytes = 0;
        assert_eq!((percent(0, &nothing), percent(1, &nothing)), (None, Some(100)));
    }
}
