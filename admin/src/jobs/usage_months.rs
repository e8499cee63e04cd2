//! Keeps a partition ready for each month of the AI gateway's usage.

use std::time::Duration;

use db::gateway::usage_months;
use domain::month::Month;

use super::{Batch, Job};
use crate::app::App;

/// Months after the present one that have a partition: admin may be away for a while, and Redis's clock ahead of ours.
const AHEAD: usize = 3;
/// Most months in one batch that get a partition after completions of theirs were recorded.
const BATCH: i64 = 12;

/// Makes the partitions of the months that begin soon, and those of months whose completions were recorded without one,
/// because this did not run or Redis's clock leapt. It fails while there are more of these than may be moved.
pub(super) struct Make;

impl Job for Make {
    const NAME: &'static str = "make months of usage";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let (mut made, mut month) = (0, Month::of(app.clock.now()));
        for _ in 0..=AHEAD {
            made += u64::from(make(app, month).await?);
            month = month.next();
        }
        for _ in 0..BATCH {
            let Some(outside) = usage_months::first_outside(&app.db).await? else {
                return Ok(Batch { done: made, full: false });
            };
            let month = Month::of(outside.time());
            anyhow::ensure!(make(app, month).await?, "ai_usage_default holds more usage of {month} than may be moved");
            made += 1;
        }
        Ok(Batch { done: made, full: true })
    }
}

/// Makes the partition of a month, unless there is one.
async fn make(app: &App, month: Month) -> anyhow::Result<bool> {
    let Some(moved) = usage_months::make(&app.db, month).await? else { return Ok(false) };
    if moved > 0 {
        tracing::warn!(%month, completions = moved, "usage was recorded before its month had a partition");
    }
    Ok(true)
}
