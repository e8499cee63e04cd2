//! Moves the packs of deleted deployments to the trash. They were queued in the deleting transaction.

use std::time::Duration;

use app::{App, metrics};
use db::upkeep::{
    pack_removals,
    store_sweep::{self, PackRecord},
};
use domain::DeploymentId;

use super::{find_records, relieve};

/// The packs moved in one run.
pub const BATCH: i64 = 50;
/// The pauses between attempts to move a pack, doubled each time.
const BACK_OFF: std::ops::RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_hours(1);

/// Moves the packs that are due, and returns their number. A pack whose deployment still exists stays. All wait while
/// another copy of the database rules the store.
pub async fn run(app: &App) -> anyhow::Result<usize> {
    if app.store.is_ruled_elsewhere() {
        return Ok(0);
    }
    let due = pack_removals::list_due(&app.db, app.clock.now(), BATCH).await?;
    if due.is_empty() {
        return Ok(0);
    }
    let ids: Vec<DeploymentId> = due.iter().map(|removal| removal.deployment_id.clone()).collect();
    let wanted: Vec<DeploymentId> = find_records(app, &ids)
        .await?
        .into_iter()
        .filter_map(|(id, record)| (record == PackRecord::Wanted).then_some(id))
        .collect();
    let second = store_sweep::state(&app.db).await?.watched_seconds;
    for removal in &due {
        let id = &removal.deployment_id;
        if wanted.contains(id) {
            tracing::warn!(deployment = %id, "a pack was queued for removal whose deployment exists; it stays");
            metrics::removal_refused();
            pack_removals::mark_removed(&app.db, id, None).await?;
            continue;
        }
        match app.store.trash(id).await {
            Ok(is_in_trash) => pack_removals::mark_removed(&app.db, id, is_in_trash.then_some(second)).await?,
            Err(error) => {
                tracing::warn!(%error, deployment = %id, "a pack could not be removed; it is tried again");
                pack_removals::postpone(&app.db, id, app.clock.now(), back_off(removal.attempts)).await?;
            }
        }
    }
    relieve::run(app, &ids).await?;
    Ok(due.len())
}

fn back_off(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts).unwrap_or_default().min(20);
    (*BACK_OFF.start() * 2_u32.pow(doublings)).min(*BACK_OFF.end())
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
