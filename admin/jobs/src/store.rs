//! Maintains the store: verifies every pack periodically, and copies new ones to the replica.

use std::time::Duration;

use acts::store_check;
use app::App;

use super::{BatchOutcome, Job};

const RUN: Duration = Duration::from_secs(45);

/// Verifies all packs within `store.check_days`, live ones first, and repairs damaged ones from the replica.
pub(super) struct CheckStore;

impl Job for CheckStore {
    const NAME: &'static str = "check the store";
    const EVERY: Duration = Duration::from_mins(1);
    // Restoring a large pack from the replica may take this long.
    const LEASE: Duration = Duration::from_mins(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        Ok(BatchOutcome { done: store_check::continue_round(app, Self::NAME, RUN).await?, full: false })
    }
}

pub(super) struct CopyPacks;

impl Job for CopyPacks {
    const NAME: &'static str = "copy packs";
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let done = store_check::copy_to_replica(app, Self::NAME).await?;
        Ok(BatchOutcome { done, full: done == store_check::COPIES.unsigned_abs() })
    }
}
