//! Scans the trash: restores packs that the database references, and permanently deletes those whose time is over.
//!
//! A pack is deleted when it has been in the trash for [`config::Store::trash_days`] by the store's clock, and this
//! database has watched it there for equally long. Watched time passes only while an admin runs, and by at most
//! [`WATCHED_AT_MOST`] between two runs: a clock that jumps by days deletes nothing, nor does a freshly restored
//! database. A copy of the database that does not rule the store deletes nothing either, but still restores packs that
//! it references, which destroys nothing of the ruler's.

use std::{collections::HashMap, time::Duration};

use app::{App, metrics};
use db::upkeep::store_sweep::{self, PackRecord, SeenPack};
use domain::{DeploymentId, Timestamp};
use packs::{StoreError, TrashedPack};

use super::{find_records, guard::ClockReadings, relieve};

/// The packs of the trash checked in one run.
pub const RUN: usize = 2_000;
/// The most packs deleted in one run, so that it ends well within its lease.
const PURGED: usize = 200;
/// The most time that one run adds to the watched time.
pub const WATCHED_AT_MOST: Duration = Duration::from_mins(10);
/// The shortest time that a pack found without a record stays in the trash.
const FOUND_KEPT: Duration = Duration::from_hours(7 * 24);
/// The age from which the remains of an interrupted move are removed.
const LEFTOVER_AFTER: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The outcome of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TendReport {
    /// The packs restored because the database references them.
    pub restored: usize,
    /// The packs deleted permanently.
    pub purged: usize,
    /// Whether there are more packs to check.
    pub is_partial: bool,
}

/// Checks the next packs of the trash.
pub async fn run(app: &App) -> anyhow::Result<TendReport> {
    let clocks = ClockReadings::read(app).await?;
    let state = store_sweep::state(&app.db).await?;
    // While something is wrong, nothing is deleted and no watched time passes.
    let is_in_order = clocks.are_in_step()
        && state.stopped_for.is_none()
        && state.in_step_until.is_some()
        && !app.store.is_ruled_elsewhere();
    let second =
        if is_in_order { store_sweep::add_watch_time(&app.db, WATCHED_AT_MOST).await? } else { state.watched_seconds };
    let page = app.store.trash_page(state.trash_position.as_ref(), RUN).await?;
    let ids: Vec<DeploymentId> = page.iter().map(|pack| pack.id.clone()).collect();
    let known: HashMap<_, _> = find_records(app, &ids).await?.into_iter().collect();
    let seen = store_sweep::record_seen(&app.db, &ids, second).await?;
    let seen: HashMap<_, _> = seen.into_iter().map(|seen| (seen.deployment_id.clone(), seen)).collect();
    let mut tended = TendReport { is_partial: page.len() == RUN, ..TendReport::default() };
    for pack in &page {
        let record = known.get(&pack.id).copied().unwrap_or(PackRecord::Unknown);
        if record == PackRecord::Wanted && pack.is_whole {
            tended.restored += usize::from(restore_pack(app, &pack.id).await?);
        } else if is_in_order
            && tended.purged < PURGED
            && record != PackRecord::Queued
            && is_expired(app, pack, seen.get(&pack.id), clocks, second)
        {
            tended.purged += usize::from(purge(app, pack).await?);
        }
    }
    let position = ids.last().filter(|_| tended.is_partial);
    store_sweep::move_in_trash(&app.db, position).await?;
    // Delete what could not be deleted when it was moved here, because something was wrong then or because a plan has
    // become smaller since.
    tended.purged += relieve::run(app, &ids).await?;
    Ok(tended)
}

async fn restore_pack(app: &App, id: &DeploymentId) -> anyhow::Result<bool> {
    match app.store.restore(id).await {
        Ok(()) => {}
        // Another program was faster.
        Err(StoreError::NotFound) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    store_sweep::forget(&app.db, id).await?;
    metrics::pack_restored();
    tracing::warn!(deployment = %id, "the database wants a pack that was in the trash; it is back");
    Ok(true)
}

fn is_expired(app: &App, pack: &TrashedPack, seen: Option<&SeenPack>, clocks: ClockReadings, second: i64) -> bool {
    let age = clocks.store.since(pack.trashed_at);
    if !pack.is_whole {
        return age > LEFTOVER_AFTER;
    }
    let Some(seen) = seen else { return false };
    let days = DAY * app.config.store.trash_days;
    let kept = if seen.is_deletion { days } else { days.max(FOUND_KEPT) };
    let watched = Duration::from_secs(u64::try_from(second - seen.seen_at_second).unwrap_or_default());
    age >= kept && watched >= kept
}

async fn purge(app: &App, pack: &TrashedPack) -> anyhow::Result<bool> {
    // Check again immediately before deletion: the page was read a while ago.
    let record = find_records(app, std::slice::from_ref(&pack.id)).await?;
    if pack.is_whole && !matches!(record[..], [(_, PackRecord::Unknown | PackRecord::Failed | PackRecord::Deleted)]) {
        return Ok(false);
    }
    app.store.purge(&pack.id).await?;
    store_sweep::forget(&app.db, &pack.id).await?;
    Ok(true)
}

/// A pack of the trash, for display to the operator.
#[derive(Debug, Clone)]
pub struct ListedTrash {
    /// The pack's id, which is its deployment's.
    pub id: DeploymentId,
    /// The name of the pack's project, if known.
    pub project: Option<String>,
    /// The time at which it was moved to the trash, by the store's clock.
    pub trashed_at: Timestamp,
    /// The pack's size in bytes.
    pub bytes: u64,
}

/// Lists at most [`RUN`] packs of the trash, following `after`.
pub async fn list(app: &App, after: Option<&DeploymentId>) -> anyhow::Result<Vec<ListedTrash>> {
    let page = app.store.trash_page(after, RUN).await?;
    let ids: Vec<DeploymentId> = page.iter().map(|pack| pack.id.clone()).collect();
    let seen = store_sweep::list_seen(&app.db, &ids).await?;
    let mut projects: HashMap<_, _> = seen.into_iter().map(|seen| (seen.deployment_id, seen.project)).collect();
    let listed = page.into_iter().map(|pack| ListedTrash {
        project: projects.remove(&pack.id).flatten(),
        id: pack.id,
        trashed_at: pack.trashed_at,
        bytes: pack.bytes,
    });
    Ok(listed.collect())
}

/// Restores a pack from the trash on the operator's request. Fails if it is not there.
pub async fn restore(app: &App, id: &DeploymentId) -> Result<(), anyhow::Error> {
    app.store.restore(id).await?;
    store_sweep::forget(&app.db, id).await?;
    metrics::pack_restored();
    Ok(())
}
