//! Keeps a partition ready for each month of the AI gateway's usage.

use std::time::Duration;

use app::App;
use db::gateway::usage_months;
use domain::month::Month;

use super::{BatchOutcome, Job};

/// The months after the present one that have a partition in advance: admin may be away for a while, and Redis's clock
/// may be ahead of ours.
const AHEAD: usize = 3;
/// The most late partitions created in one batch, for months whose completions are already recorded.
const BATCH: i64 = 12;

/// Creates the partitions of months that begin soon, and of months whose completions were recorded without one, because
/// this job did not run or Redis's clock jumped. It fails if a month has more of these than may be moved.
pub(super) struct AddUsageMonths;

impl Job for AddUsageMonths {
    const NAME: &'static str = "make months of usage";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let (mut made, mut month) = (0, Month::from_timestamp(app.clock.now()));
        for _ in 0..=AHEAD {
            made += u64::from(add_month(app, month).await?);
            month = month.next();
        }
        for _ in 0..BATCH {
            let Some(outside) = usage_months::first_outside(&app.db).await? else {
                return Ok(BatchOutcome { done: made, full: false });
            };
            let month = Month::from_timestamp(outside.time());
            anyhow::ensure!(
                add_month(app, month).await?,
                "ai_usage_default holds more usage of {month} than may be moved"
            );
            made += 1;
        }
        Ok(BatchOutcome { done: made, full: true })
    }
}

/// Creates the partition of a month. Returns `false` if there is one already, or if it would have to take over too many
/// completions.
async fn add_month(app: &App, month: Month) -> anyhow::Result<bool> {
    let Some(moved) = usage_months::create_partition(&app.db, month).await? else { return Ok(false) };
    if moved > 0 {
        tracing::warn!(%month, completions = moved, "usage was recorded before its month had a partition");
    }
    Ok(true)
}
