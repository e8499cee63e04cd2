//! Sends committed changes that did not reach the edges, and deletes changes so old that no edge asks for them.

use std::time::Duration;

use app::{App, edges};
use db::edges::route_changes::{self, NumberedChange};

use super::{BatchOutcome, Job};

/// The age from which this job sends an unsent change; the request that made it sends it within milliseconds.
const ORPHANED_AFTER: Duration = Duration::from_secs(1);
/// How long an edge may be without Redis and still catch up change by change; beyond it, the edge clears its memory.
const KEPT: Duration = Duration::from_hours(48);
const SEND_BATCH: i64 = 256;
const PRUNE_BATCH: i64 = 5_000;

/// Sends changes that a crash or an outage of Redis left unsent, and numbers those that a crash left without a number.
pub(super) struct ResendChanges;

impl Job for ResendChanges {
    const NAME: &'static str = "republish route changes";
    const EVERY: Duration = Duration::from_secs(1);
    const LEASE: Duration = Duration::from_secs(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let before = app.clock.now() - ORPHANED_AFTER;
        if route_changes::is_any_pending(&app.db, before).await? {
            // This includes changes of a request that waits for its numbers: it finds them, and leaves the sending to
            // this job.
            let numbered = route_changes::number_pending(&app.db).await?;
            for NumberedChange { change, .. } in &numbered {
                edges::send_now(change, &app.redis).await?;
            }
            let seqs: Vec<i64> = numbered.iter().map(|numbered| numbered.change.seq).collect();
            route_changes::mark_sent(&app.db, &seqs, app.clock.now()).await?;
        }
        let changes = route_changes::list_unsent(&app.db, before, SEND_BATCH).await?;
        if changes.is_empty() {
            return Ok(BatchOutcome::new(0, SEND_BATCH));
        }
        for change in &changes {
            edges::send_now(change, &app.redis).await?;
        }
        let seqs: Vec<i64> = changes.iter().map(|change| change.seq).collect();
        route_changes::mark_sent(&app.db, &seqs, app.clock.now()).await?;
        Ok(BatchOutcome::new(changes.len(), SEND_BATCH))
    }
}

pub(super) struct PruneChanges;

impl Job for PruneChanges {
    const NAME: &'static str = "prune route changes";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let pruned = route_changes::prune(&app.db, app.clock.now() - KEPT, PRUNE_BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(pruned)?, PRUNE_BATCH))
    }
}
