//! Removes expired shares. The edges stop serving them by themselves, at the second of their expiry.

use std::time::Duration;

use app::App;
use db::{audit::Actor, projects::shares};

use super::{BatchOutcome, Job};

/// The shares removed in one transaction: few, because every other change waits for its last steps.
const BATCH: i64 = 20;

/// Removes the records of expired shares, and queues their packs for removal.
pub(super) struct RemoveExpiredShares;

impl Job for RemoveExpiredShares {
    const NAME: &'static str = "reap shares";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let mut change = app.change(Actor::Platform).await?;
        let now = change.now();
        let removed = shares::remove_expired(&mut change, now, BATCH).await?;
        let batch = BatchOutcome::new(removed.len(), BATCH);
        for share in removed {
            change.touch(share);
        }
        change.commit_without_waiting().await?;
        Ok(batch)
    }
}
