//! Deploys pending pushes. A run leases a due one and processes it in a task of its own; [`deploy`] decides its
//! outcome, with the files that [`fetch`] gets from the code host. [`missed`] finds pushes whose webhook was lost.
//! Accounts take turns in the round robin of [`order`].

mod deploy;
mod fetch;
mod missed;
mod order;

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use app::App;
use db::code_host::repo_deploys::{self, PushClaim};
use domain::Timestamp;

pub use self::missed::{CHECK_EVERY, FindMissedPushes};
use self::{deploy::PushOutcome, order::RoundRobin};
use super::{BatchOutcome, Job};

/// The lease of a push: it covers fetching, publishing, and waiting for a permit to publish. Afterwards another admin
/// may try, and this one's work can no longer go live.
const LEASE: Duration = Duration::from_mins(12);
/// The timeout of one push, shorter than its lease.
const WORK_TIMEOUT: Duration = Duration::from_mins(10);
/// The pauses between attempts, doubled each time.
const BACK_OFF: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_mins(5);
/// The attempts before a push is given up: some 13 minutes, plus the time that they take.
const ATTEMPTS: i32 = 10;

const ACCOUNTS: i64 = 1_000;

#[derive(Default)]
pub(super) struct DeployPushes {
    order: Mutex<RoundRobin>,
}

impl Job for DeployPushes {
    const NAME: &'static str = "deploy pushes";
    const EVERY: Duration = Duration::from_secs(1);
    const LEASE: Duration = Duration::from_secs(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let nothing = BatchOutcome::new(0, 1);
        if app.bounds.is_full_of_pushes() {
            return Ok(nothing);
        }
        let now = app.clock.now();
        let due = repo_deploys::due_accounts(&app.db, now, ACCOUNTS).await?;
        let accounts = self.order(|order| order.arrange(due));
        for account in accounts {
            let Some(turn) = app.bounds.push(&account) else { continue };
            let Some(claim) = repo_deploys::claim(&app.db, account.account(), now, now + LEASE).await? else {
                continue;
            };
            self.order(|order| order.serve(&account));
            let cx = app.clone();
            app.tasks.spawn(async move {
                process_push(&cx, &claim).await;
                drop(turn);
            });
            // There may be another, so the next batch follows immediately.
            return Ok(BatchOutcome::new(1, 1));
        }
        Ok(nothing)
    }
}

impl DeployPushes {
    fn order<T>(&self, with: impl FnOnce(&mut RoundRobin) -> T) -> T {
        with(&mut self.order.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn process_push(app: &App, claim: &PushClaim) {
    let deploying = tokio::time::timeout(WORK_TIMEOUT, Box::pin(deploy::deploy(app, claim)));
    let outcome = match app.stopping.run_until_cancelled(deploying).await {
        None => PushOutcome::Stopped,
        Some(Err(_)) => PushOutcome::Retry { error: "it took too long".to_owned(), after: None },
        Some(Ok(outcome)) => outcome,
    };
    let project = &claim.project;
    let now = app.clock.now();
    let noting = async {
        match outcome {
            PushOutcome::Done => Ok(()),
            PushOutcome::Nothing => drop_claim(app, claim).await,
            PushOutcome::Overtaken => {
                tracing::info!(%project, sha = %claim.sha, "a push was overtaken");
                repo_deploys::release_lease(&app.db, claim).await
            }
            PushOutcome::Stopped => repo_deploys::release_lease(&app.db, claim).await,
            PushOutcome::Settling(pause) => repo_deploys::retry_later(&app.db, claim, now + pause, None).await,
            PushOutcome::Waiting { reason, after } => {
                tracing::warn!(%project, sha = %claim.sha, reason, "a push waits");
                deploy::record_wait(app, claim, now + after, reason).await
            }
            PushOutcome::Failed(reason) => {
                tracing::info!(%project, sha = %claim.sha, reason, "a push could not be deployed");
                deploy::record_failure(app, claim, &claim.sha, &reason).await
            }
            PushOutcome::Retry { error, .. } if claim.attempts + 1 >= ATTEMPTS => {
                tracing::warn!(%project, sha = %claim.sha, error, "a push is given up");
                let reason = "The code host could not be read in ten attempts; push again to try once more.";
                deploy::record_failure(app, claim, &claim.sha, reason).await
            }
            PushOutcome::Retry { error, after } => {
                tracing::warn!(%project, sha = %claim.sha, error, attempts = claim.attempts + 1, "a push is tried again");
                let at = next_attempt(now, claim.attempts, after);
                repo_deploys::retry_later(&app.db, claim, at, Some(&error)).await
            }
        }
    };
    // The lease expires by itself.
    if let Err(error) = db::in_time(noting).await {
        tracing::warn!(%error, %project, "the outcome of a push could not be recorded; it is tried again");
    }
}

async fn drop_claim(app: &App, claim: &PushClaim) -> Result<(), sqlx::Error> {
    repo_deploys::drop_claim(&mut *app.db.acquire().await?, claim).await
}

fn next_attempt(now: Timestamp, attempts: i32, after: Option<Duration>) -> Timestamp {
    let doublings = u32::try_from(attempts).unwrap_or_default().min(20);
    let back_off = (*BACK_OFF.start() * 2_u32.pow(doublings)).min(*BACK_OFF.end());
    now + after.map_or(back_off, |after| after.max(back_off))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_respect_the_code_host() {
        let now = Timestamp::from_unix_millis(0);
        let pause = |attempts, after| next_attempt(now, attempts, after).since(now);
        assert_eq!(pause(0, None), Duration::from_secs(2));
        assert_eq!(pause(3, None), Duration::from_secs(16));
        assert_eq!(pause(i32::MAX, None), Duration::from_mins(5));
        assert_eq!(pause(0, Some(Duration::from_hours(1))), Duration::from_hours(1));
        assert_eq!(pause(5, Some(Duration::from_secs(1))), Duration::from_secs(64));
    }
}
