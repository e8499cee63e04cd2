//! Completes the sums per AI key of accounts whose usage was recorded before such sums existed.

use std::time::Duration;

use app::App;
use db::gateway::ai_usage;
use domain::month::Month;

use super::{BatchOutcome, Job};

const BATCH: i64 = 50;

/// Sums the keys of accounts without sums, each account under its own lock. An edge that needs an account's sums
/// earlier does the same.
pub(super) struct SumKeyUsage;

impl Job for SumKeyUsage {
    const NAME: &'static str = "sum usage by key";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let accounts = ai_usage::list_unsummed(&app.db, BATCH).await?;
        for account in &accounts {
            ai_usage::sum_keys(&app.db, account, Month::from_timestamp(app.clock.now())).await?;
        }
        Ok(BatchOutcome::new(accounts.len(), BATCH))
    }
}
