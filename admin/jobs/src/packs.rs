//! Removes packs that are no longer needed: queued when a deployment was deleted, orphaned by a crash, or expired in
//! the trash.

use std::time::Duration;

use acts::trash::{remove, sweep, tend};
use app::App;
use db::upkeep::backups;

use super::{BatchOutcome, Job};

pub(super) struct TrashPacks;

impl Job for TrashPacks {
    // A backup holds this lease while it runs. The name differs from that of the previous version, which deletes packs
    // and thus never gets a lease again.
    const NAME: &'static str = backups::TRASH_PACKS;
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        Ok(BatchOutcome::new(remove::run(app).await?, remove::BATCH))
    }
}

/// Scans the store for packs without a record. Each run scans a part, and the next one continues there.
pub(super) struct SweepStore;

impl Job for SweepStore {
    // The name differs from that of the previous version, which deletes what it finds and thus never gets a lease
    // again.
    const NAME: &'static str = "sweep the store";
    const EVERY: Duration = Duration::from_mins(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let swept = sweep::run(app).await?;
        Ok(BatchOutcome { done: swept.moved as u64, full: false })
    }
}

/// Restores packs from the trash that the database references, and deletes expired ones.
pub(super) struct TendTrash;

impl Job for TendTrash {
    const NAME: &'static str = "tend the trash";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let tended = tend::run(app).await?;
        Ok(BatchOutcome { done: (tended.restored + tended.purged) as u64, full: tended.is_partial })
    }
}
