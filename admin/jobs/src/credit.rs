//! Notifies accounts that have used 80 or 100 percent of the month's AI credit. The gateway itself enforces the limit.

use std::time::Duration;

use app::App;
use db::{
    audit::Actor,
    billing::plan::{self, ChargedPlan},
    gateway::{ai_usage, free_credit},
};
use domain::{Account, billing::Cents, month::Month, usage::Microcents};
use mail::notices::{Notice, notify};

use super::{BatchOutcome, Job};

const ACCOUNTS: i64 = 200;
/// The age of completions up to which their account is checked.
const LATELY: Duration = Duration::from_mins(15);

pub(super) struct NotifyCreditUsed;

impl Job for NotifyCreditUsed {
    const NAME: &'static str = "tell of used AI credit";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        let month = Month::from_timestamp(now);
        let (mut after, mut done) = (None, 0);
        loop {
            let accounts =
                ai_usage::list_recent_spenders(&app.db, month, now - LATELY, after.as_ref(), ACCOUNTS).await?;
            for (account, spent) in &accounts {
                match notify_account(app, month, account, *spent).await {
                    Ok(is_new) => done += u64::from(is_new),
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(%account, error, "used credit could not be told of");
                    }
                }
            }
            match accounts.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(BatchOutcome { done, full: false }),
            }
        }
    }
}

/// Notifies an account once of the level that it has reached, if any.
async fn notify_account(app: &App, month: Month, account: &Account, spent: Microcents) -> anyhow::Result<bool> {
    let ChargedPlan { subscribed, charged } = plan::charged_plan(&app.db, account).await?;
    let Some((id, plan)) = app.plans().plan_for(subscribed.as_deref()) else { return Ok(false) };
    let limits = app.plans().paid_limits_for(subscribed.as_deref(), charged.as_deref());
    let credit = limits.ai_credit();
    // Organizations without a subscription share one credit.
    let together = match account {
        Account::Org(org) if subscribed.is_none() => free_credit::sum_shared_cost(&app.db, org, month).await?,
        _ => spent,
    };
    let (spent, is_shared) = (together, together > spent);
    let Some(percent) = percent(spent, credit) else { return Ok(false) };
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    let limit = Cents::from(limits.ai_credit_cents);
    let notice = Notice::CreditReached { percent, plan: plan.name.clone(), month, limit, is_shared };
    // Queuing the same notice again has no effect.
    let is_all = limits.ai_credit_cents == plan.limits.ai_credit_cents;
    // A paid upgrade makes more credit available, so its levels are notified separately.
    let until = if is_all { String::new() } else { format!("/{}", limits.ai_credit_cents) };
    let event = format!("credit/{account}/{month}/{id}{until}/{percent}");
    notify(&mut change, account, &event, &notice, None, now).await?;
    change.commit_without_waiting().await?;
    Ok(true)
}

/// Returns the level, in percent, that `spent` is of `credit`. The gateway admits no request that could cost more than
/// what is left, so that hardly any account spends the last hundredth.
fn percent(spent: Microcents, credit: Microcents) -> Option<u8> {
    let (spent, credit) = (u128::from(spent.0), u128::from(credit.0));
    match spent {
        0 => None,
        _ if spent * 100 >= credit * 99 => Some(100),
        _ if spent * 100 >= credit * 80 => Some(80),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_reached_at_eighty_and_ninety_nine_hundredths() {
        let credit = Microcents::from_cents(100);
        for (cents, level) in [(0, None), (79, None), (80, Some(80)), (98, Some(80)), (99, Some(100)), (200, Some(100))]
        {
            assert_eq!(percent(Microcents::from_cents(cents), credit), level, "{cents}");
        }
        assert_eq!(percent(Microcents(1), Microcents(0)), Some(100));
    }
}
