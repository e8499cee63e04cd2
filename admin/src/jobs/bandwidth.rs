//! Compares accounts' bandwidth of the month with their plans. At 80 and 100 percent people are told, and from 100 on the edges
//! serve the account's sites at a bounded rate. Only bytes to people count: an account is not slowed down by a crawler.

use std::{collections::HashMap, time::Duration};

use db::{
    audit::Actor,
    billing::bandwidth_levels::{self, Level, Standing},
    stats::bandwidth,
};
use domain::{Account, Subject, month::Month, plans::Plan};

use super::{Batch, Job};
use crate::{
    app::App,
    mail::notices::{Notice, notify},
};

/// Accounts that are compared in one statement.
const ACCOUNTS: i64 = 200;
/// Rows in one batch of deletions.
const ROWS: i64 = 5_000;

/// Records which accounts have reached a level, or have room again.
pub(super) struct Compare;

impl Job for Compare {
    const NAME: &'static str = "compare bandwidth with plans";
    const EVERY: Duration = Duration::from_secs(30);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let month = Month::of(app.clock.now());
        let (mut after, mut done) = (None, 0);
        loop {
            let now = app.clock.now();
            let accounts = bandwidth::busy_accounts(&app.db, month, after.as_ref(), ACCOUNTS, now).await?;
            let used: HashMap<Account, u64> =
                bandwidth::to_people(&app.db, &accounts, month, now).await?.into_iter().collect();
            for standing in bandwidth_levels::standings(&app.db, &accounts, month).await? {
                let used = used.get(&standing.account).copied().unwrap_or_default();
                match compare(app, month, &standing, used).await {
                    Ok(is_new) => done += u64::from(is_new),
                    // What is wrong with one account keeps no other from its limit.
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(account = %standing.account, error, "bandwidth could not be compared");
                    }
                }
            }
            match accounts.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => return Ok(Batch { done, full: false }),
            }
        }
    }
}

/// Deletes the levels of months that are over.
pub(super) struct Forget;

impl Job for Forget {
    const NAME: &'static str = "forget bandwidth levels";
    const EVERY: Duration = Duration::from_hours(6);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let deleted = bandwidth_levels::delete_before(&app.db, Month::of(app.clock.now()), ROWS).await?;
        Ok(Batch { done: deleted, full: deleted >= ROWS.unsigned_abs() })
    }
}

/// Records the level of an account that has sent `used` bytes to people. Returns whether it is another than before.
async fn compare(app: &App, month: Month, standing: &Standing, used: u64) -> anyhow::Result<bool> {
    let Standing { account, subscribed, level } = standing;
    let Some((id, plan)) = app.plans().plan_of(subscribed.as_deref()) else { return Ok(false) };
    let reached = percent(used, plan).map(|percent| Level { percent, plan: subscribed.clone() });
    if reached == *level {
        return Ok(false);
    }
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    match &reached {
        Some(reached) => {
            bandwidth_levels::reach(&mut change, account, month, reached, now).await?;
            let percent = reached.percent;
            let limit_bytes = plan.limits.bandwidth_bytes;
            let notice = Notice::BandwidthReached { percent, plan: plan.name.clone(), month, limit_bytes };
            let event = format!("bandwidth/{account}/{month}/{id}/{percent}");
            notify(&mut change, account, &event, &notice, None, now).await?;
        }
        None => bandwidth_levels::lift(&mut change, account, month).await?,
    }
    // What the edges do depends on whether all is used, on the plan that the account has.
    let is_over =
        |level: &Option<Level>| level.as_ref().is_some_and(|level| level.percent == 100 && level.plan == *subscribed);
    if is_over(&reached) != is_over(level) {
        change.touch(Subject::from(account));
    }
    change.commit_without_waiting().await?;
    Ok(true)
}

/// The level that `used` bytes are of the plan's bandwidth.
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
    use domain::plans::Plans;

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
        let mut nothing = free.clone();
        nothing.limits.bandwidth_bytes = 0;
        assert_eq!((percent(0, &nothing), percent(1, &nothing)), (None, Some(100)));
    }
}
