//! Shares that have expired. The edges stop serving them by themselves, at the second.

use std::time::Duration;

use db::shares;

use super::{Batch, Job};
use crate::app::App;

/// In one transaction, which every other change waits for at its end.
const BATCH: i64 = 20;

/// Removes expired shares, with their records; their packs are queued for removal.
pub(super) struct Reap;

impl Job for Reap {
    const NAME: &'static str = "reap shares";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let mut tx = app.db.begin().await?;
        let changes = shares::remove_expired(&mut tx, app.clock.now(), BATCH).await?;
        tx.commit().await?;
        let batch = Batch::of(changes.len(), BATCH);
        for change in changes {
            app.edges.publish(change);
        }
        Ok(batch)
    }
}
