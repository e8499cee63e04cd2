//! Finds packs that the store has lost or damaged by reading every pack. Faults are recorded in `pack_faults`, logged,
//! and repaired from the store's replica if there is one.
//!
//! `admin store check` reads all packs in one go, the job `check the store` over some weeks.

use std::time::Duration;

use app::{App, metrics};
use db::upkeep::{
    job_leases, pack_copies,
    pack_faults::{self, DeploymentOwner},
};
use domain::{DeploymentId, Timestamp};
use packs::{PackFault, ReadPace, StoreError};
use serde::{Deserialize, Serialize};

/// Deployments read from the database per query.
pub const PAGE: i64 = 200;
/// The maximum number of packs copied to the replica per batch.
pub const COPIES: i64 = 5;
/// The age up to which deployments are searched again: longer than an upload with an id takes to get its files.
const COPIES_LOOK_BACK: Duration = Duration::from_hours(2);
/// Interval at which copying restarts from the beginning, which retries failed copies.
const COPIES_ANEW: Duration = Duration::from_hours(6);
/// The minimum reading rate of a round, in bytes per second.
const LEAST_RATE: u64 = 256 * 1024;
/// The percentage of a round's days in which it should finish: some time is lost to restarts.
const ROUND_PERCENT: u64 = 80;
const DAY: Duration = Duration::from_hours(24);

/// A fault of a deployment's pack.
#[derive(Debug, Serialize)]
pub struct PackFinding {
    /// The deployment.
    pub deployment: DeploymentId,
    /// The project, or the three words of a share.
    pub project: String,
    /// The owning person or organization.
    pub owner: String,
    /// The kind of fault, as printed.
    pub kind: &'static str,
    /// The affected files, the first hundred; empty if the manifest, which names them, is affected.
    pub paths: Vec<String>,
    /// Whether it was repaired from the replica.
    pub repaired: bool,
}

/// The progress of a round through the store, stored in the database.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CheckRound {
    began: Timestamp,
    /// Bytes per second.
    rate: u64,
    /// Whether the round is at the live deployments, which come first.
    is_live: bool,
    /// The last finished deployment.
    after: Option<DeploymentId>,
    /// The unfinished deployment, and the offset in its data at which to continue.
    within: Option<(DeploymentId, u64)>,
    /// When reading the unfinished deployment began. Absent from rounds of earlier versions.
    #[serde(default)]
    within_since: Option<Timestamp>,
    ended: Option<Timestamp>,
    /// When the last complete round ended.
    last_whole: Option<Timestamp>,
}

/// Reads an entire pack. Returns its fault after recording it and, if `is_repairing`, repairing it.
pub async fn check_pack(
    app: &App,
    id: &DeploymentId,
    pace: &mut ReadPace,
    is_repairing: bool,
) -> anyhow::Result<(u64, Option<PackFinding>)> {
    let since = app.clock.now();
    let step = app.store.check_whole(id, pace).await?;
    Ok((step.read, record_outcome(app, id, step.fault, Some(since), is_repairing).await?))
}

/// Records the outcome of a check that began at `since`, if that is known.
async fn record_outcome(
    app: &App,
    id: &DeploymentId,
    fault: Option<PackFault>,
    since: Option<Timestamp>,
    is_repairing: bool,
) -> anyhow::Result<Option<PackFinding>> {
    let now = app.clock.now();
    let Some(fault) = fault else {
        if let Some(since) = since
            && pack_faults::mark_repaired(&app.db, id, since, now).await?
        {
            tracing::info!(deployment = %id, "a pack that was lost or damaged is whole again");
        }
        return Ok(None);
    };
    // It may have been deleted during the check.
    let Some(DeploymentOwner { project, owner }) = pack_faults::find_owner(&app.db, id).await? else { return Ok(None) };
    let (kind, paths) = (fault.kind.as_str(), fault.paths);
    let count = i32::try_from(paths.len()).unwrap_or(i32::MAX);
    pack_faults::record(&app.db, id, kind, paths.first().map(String::as_str), count, now).await?;
    let first = paths.first().map_or("(manifest)", String::as_str);
    tracing::error!(deployment = %id, project, owner, kind, path = first, files = count, "a pack is lost or damaged");
    let repaired = is_repairing && repair(app, id).await?;
    Ok(Some(PackFinding { deployment: id.clone(), project, owner, kind, paths, repaired }))
}

/// Restores a pack from the replica, which must have all of it. Its remains in the store are set aside.
async fn repair(app: &App, id: &DeploymentId) -> anyhow::Result<bool> {
    let Some(replica) = &app.replica else { return Ok(false) };
    let pack = match replica.fetch(id, &mut ReadPace::new(None)).await {
        Ok(pack) => pack,
        Err(error @ (StoreError::NotFound | StoreError::Damaged(_))) => {
            tracing::error!(deployment = %id, %error, "a pack cannot be repaired: the replica does not have it whole");
            return Ok(false);
        }
        Err(error) => return Err(anyhow::Error::from(error).context("the replica cannot be read")),
    };
    app.store.replace(id, pack, app.clock.now()).await?;
    if let Some(fault) = app.store.check_whole(id, &mut ReadPace::new(None)).await?.fault {
        tracing::error!(deployment = %id, kind = fault.kind.as_str(), "a pack that was taken back is damaged again");
        return Ok(false);
    }
    let now = app.clock.now();
    pack_faults::mark_repaired(&app.db, id, now, now).await?;
    tracing::info!(deployment = %id, "a pack was taken back from the replica");
    Ok(true)
}

/// Continues the round through the store for at most `time`, and starts the next one when it is due. Returns the number
/// of packs finished. `job` is the job whose row stores the progress.
pub async fn continue_round(app: &App, job: &str, time: Duration) -> anyhow::Result<u64> {
    let days = u64::from(app.config.store.check_days);
    if days == 0 {
        return Ok(0);
    }
    let now = app.clock.now();
    let stored = job_leases::cursor(&app.db, job).await?;
    let last: Option<CheckRound> = stored.and_then(|text| serde_json::from_str(&text).ok());
    let due = |began| now.since(began) >= DAY * u32::try_from(days).unwrap_or(1);
    let mut round = match last {
        Some(round) if round.ended.is_none() || !due(round.began) => round,
        last => begin(app, now, days, last.and_then(|round| round.last_whole)).await?,
    };
    let mut done = 0;
    if round.ended.is_none() {
        // If a step fails, keep the progress made before it.
        let outcome = steps(app, &mut round, time).await;
        job_leases::move_cursor(&app.db, job, Some(&serde_json::to_string(&round)?)).await?;
        done = outcome?;
    }
    metrics::store_checked(round.last_whole);
    metrics::store_faults(&pack_faults::count_by_kind(&app.db).await?);
    Ok(done)
}

async fn begin(app: &App, now: Timestamp, days: u64, last_whole: Option<Timestamp>) -> anyhow::Result<CheckRound> {
    let bytes = u64::try_from(pack_faults::stored_bytes(&app.db).await?).unwrap_or_default();
    let seconds = days * DAY.as_secs() * ROUND_PERCENT / 100;
    let rate = (bytes / seconds).max(LEAST_RATE).min(app.config.store.check_bytes_per_second.0).max(1);
    Ok(CheckRound {
        began: now,
        rate,
        is_live: true,
        after: None,
        within: None,
        within_since: None,
        ended: None,
        last_whole,
    })
}

async fn steps(app: &App, round: &mut CheckRound, time: Duration) -> anyhow::Result<u64> {
    let mut pace = ReadPace::new(Some(round.rate));
    let mut left = round.rate.saturating_mul(time.as_secs());
    let mut done = 0;
    while left > 0 && done < PAGE.unsigned_abs() {
        let (id, from) = match round.within.take() {
            Some(within) => within,
            None => match pack_faults::page(&app.db, round.is_live, round.after.as_ref(), 1).await?.pop() {
                Some(id) => (id, 0),
                None if round.is_live => {
                    (round.is_live, round.after) = (false, None);
                    continue;
                }
                None => {
                    let now = app.clock.now();
                    (round.ended, round.last_whole) = (Some(now), Some(now));
                    break;
                }
            },
        };
        round.within = Some((id.clone(), from));
        if from == 0 {
            round.within_since = Some(app.clock.now());
        }
        let step = app.store.check(&id, from, left, &mut pace).await?;
        left = left.saturating_sub(step.read.max(1));
        if let Some(next) = step.next {
            round.within = Some((id, next));
            continue;
        }
        // Only a step without a fault is followed by another, so the last one speaks for all of them.
        record_outcome(app, &id, step.fault, round.within_since, app.replica.is_some()).await?;
        (round.after, round.within, round.within_since) = (Some(id), None, None);
        done += 1;
    }
    Ok(done)
}

/// The progress of copying to the replica, stored in the database.
#[derive(Debug, Serialize, Deserialize)]
struct CopyProgress {
    replica: String,
    began: Timestamp,
    after: Option<DeploymentId>,
}

/// Copies up to [`COPIES`] packs that the replica lacks, oldest first. Returns their number.
pub async fn copy_to_replica(app: &App, job: &str) -> anyhow::Result<u64> {
    let (Some(replica), Some(url)) = (&app.replica, &app.config.store.replica_url) else { return Ok(0) };
    let now = app.clock.now();
    let stored = job_leases::cursor(&app.db, job).await?;
    let stored: Option<CopyProgress> = stored.and_then(|text| serde_json::from_str(&text).ok());
    let current = stored.filter(|copies| copies.replica == url.as_str() && now.since(copies.began) <= COPIES_ANEW);
    let mut copies = current.unwrap_or_else(|| CopyProgress { replica: url.to_string(), began: now, after: None });
    let missing = pack_copies::list_missing(&app.db, url.as_str(), copies.after.as_ref(), COPIES).await?;
    let mut copied = 0;
    for id in &missing {
        match app.store.fetch(id, &mut ReadPace::new(None)).await {
            Ok(pack) => {
                replica.put_copy(id, pack).await?;
                pack_copies::mark_copied(&app.db, id, url.as_str(), app.clock.now()).await?;
                copied += 1;
            }
            // Lost before it was copied: record it, and continue with the others.
            Err(StoreError::NotFound | StoreError::Damaged(_)) => {
                check_pack(app, id, &mut ReadPace::new(None), false).await?;
            }
            Err(error) => return Err(error.into()),
        }
        copies.after = Some(id.clone());
    }
    if i64::try_from(missing.len()).is_ok_and(|count| count < COPIES) {
        let end = DeploymentId::first_of(now - COPIES_LOOK_BACK);
        copies.after = Some(copies.after.map_or(end.clone(), |after| after.min(end)));
    }
    job_leases::move_cursor(&app.db, job, Some(&serde_json::to_string(&copies)?)).await?;
    Ok(copied)
}
