//! Removes packs that are no longer needed: queued when a deployment was deleted, or left behind by a crash.

use std::{collections::HashSet, time::Duration};

use db::upkeep::{backups, deployments, pack_removals};
use domain::DeploymentId;

use super::{Batch, Job};
use crate::app::App;

const REMOVE_BATCH: i64 = 50;
/// Pauses between attempts to remove a pack, doubled each time.
const BACK_OFF: std::ops::RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_hours(1);
/// Age from which a pack without a record is an orphan. While its upload is being committed, a pack has none either.
const ORPHANED_AFTER: Duration = Duration::from_hours(1);
/// Most packs looked up in one statement.
const ORPHAN_CHUNK: usize = 1_000;

/// Removes queued packs from the store.
pub(super) struct Remove;

impl Job for Remove {
    // A backup holds this lease meanwhile.
    const NAME: &'static str = backups::REMOVE_PACKS;
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let due = pack_removals::due(&app.db, app.clock.now(), REMOVE_BATCH).await?;
        for removal in &due {
            let id = &removal.deployment_id;
            match app.store.remove(id).await {
                Ok(()) => pack_removals::done(&app.db, id).await?,
                Err(error) => {
                    tracing::warn!(%error, deployment = %id, "a pack could not be removed; it is tried again");
                    pack_removals::put_off(&app.db, id, app.clock.now(), back_off(removal.attempts)).await?;
                }
            }
        }
        Ok(Batch::of(due.len(), REMOVE_BATCH))
    }
}

fn back_off(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts).unwrap_or_default().min(20);
    (*BACK_OFF.start() * 2_u32.pow(doublings)).min(*BACK_OFF.end())
}

/// Queues packs whose deployment failed or was never committed.
pub(super) struct FindOrphans;

impl Job for FindOrphans {
    const NAME: &'static str = "find orphaned packs";
    const EVERY: Duration = Duration::from_mins(30);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let now = app.clock.now();
        let packs = app.store.list().await?.into_iter();
        let old = packs.filter(|(_, written)| now.since(*written) > ORPHANED_AFTER);
        let old: Vec<DeploymentId> = old.map(|(id, _)| id).collect();
        let mut orphans = 0;
        for chunk in old.chunks(ORPHAN_CHUNK) {
            let kept: HashSet<_> = deployments::keeping_packs(&app.db, chunk).await?.into_iter().collect();
            let mut db = app.db.acquire().await?;
            for orphan in chunk.iter().filter(|id| !kept.contains(id)) {
                pack_removals::queue(&mut db, orphan, now).await?;
                orphans += 1;
            }
        }
        Ok(Batch { done: orphans, full: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        assert_eq!(back_off(0), Duration::from_secs(10));
        assert_eq!(back_off(3), Duration::from_secs(80));
        assert_eq!(back_off(i32::MAX), Duration::from_hours(1));
    }
}
