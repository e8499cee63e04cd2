//! Gives up uploads whose program died.

use std::time::Duration;

use app::App;
use db::upkeep::deployments;

use super::{BatchOutcome, Job};

/// The age at which an upload's program counts as dead: longer than any upload may take.
const STUCK_AFTER: Duration = Duration::from_hours(1);
const REASON: &str = "The upload was cut off on our side; please try again.";
const BATCH: i64 = 500;

/// Marks uploads that will never end as failed. The sweep of the store finds their packs.
pub(super) struct FailStuckUploads;

impl Job for FailStuckUploads {
    const NAME: &'static str = "give up uploads";
    const EVERY: Duration = Duration::from_mins(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let mut db = app.db.acquire().await?;
        let failed = deployments::fail_stuck(&mut db, app.clock.now() - STUCK_AFTER, REASON, BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(failed)?, BATCH))
    }
}
