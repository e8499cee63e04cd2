//! What the store has lost or damaged: found by reading every pack, noted in `pack_faults`, told to the log, and taken back from
//! the replica of the store where there is one.
//!
//! `admin store check` goes through all packs at once, the job `check the store` through all of them within some weeks.

use std::time::Duration;

use db::upkeep::{
    job_leases, pack_copies,
    pack_faults::{self, Ownership},
};
use domain::{DeploymentId, Timestamp};
use packs::{Pace, PackFault, StoreError};
use serde::{Deserialize, Serialize};

use crate::{app::App, metrics};

/// Deployments read from the database together.
pub const PAGE: i64 = 200;
/// Packs copied to the replica by one batch.
pub const COPIES: i64 = 5;
/// Age up to which deployments are looked for anew although the copies have come to the end: the time in which an upload that has
/// an id gets its files, and more.
const COPIES_LOOK_BACK: Duration = Duration::from_hours(2);
/// Interval at which copies are looked for from the beginning: one that failed is tried again then.
const COPIES_ANEW: Duration = Duration::from_hours(6);
/// Bytes a second that a round reads at least.
const LEAST_RATE: u64 = 256 * 1024;
/// The part of a round's days in which it is to end, in percent: some are lost to restarts.
const ROUND_PERCENT: u64 = 80;
const DAY: Duration = Duration::from_hours(24);

/// A fault of a deployment's pack.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The deployment.
    pub deployment: DeploymentId,
    /// Its project, or the three words of a share.
    pub project: String,
    /// The person or the organization whose it is.
    pub owner: String,
    /// The kind of the fault, as it is printed.
    pub kind: &'static str,
    /// The files that have to do with it, the first hundred; none where it is the manifest that names them.
    pub paths: Vec<String>,
    /// Whether it was taken back from the replica.
    pub repaired: bool,
}

/// Where a round through the store is. Kept in the database.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Round {
    began: Timestamp,
    /// Bytes a second.
    rate: u64,
    /// Whether it is among the live deployments, which come first.
    is_live: bool,
    /// The last deployment that is done with.
    after: Option<DeploymentId>,
    /// The deployment that was begun, and where in its data it goes on.
    within: Option<(DeploymentId, u64)>,
    ended: Option<Timestamp>,
    /// When the last whole round had ended.
    last_whole: Option<Timestamp>,
}

/// Reads all of a pack. Returns its fault, after it was noted and, where `is_repairing`, repaired.
pub async fn check_one(
    app: &App,
    id: &DeploymentId,
    pace: &mut Pace,
    is_repairing: bool,
) -> anyhow::Result<(u64, Option<Finding>)> {
    let step = app.store.check_whole(id, pace).await?;
    Ok((step.read, conclude(app, id, step.fault, is_repairing).await?))
}

/// Notes the outcome of a check.
async fn conclude(
    app: &App,
    id: &DeploymentId,
    fault: Option<PackFault>,
    is_repairing: bool,
) -> anyhow::Result<Option<Finding>> {
    let now = app.clock.now();
    let Some(fault) = fault else {
        if pack_faults::repaired(&app.db, id, now).await? {
            tracing::info!(deployment = %id, "a pack that was lost or damaged is whole again");
        }
        return Ok(None);
    };
    // It may have been deleted while it was read.
    let Some(Ownership { project, owner }) = pack_faults::ownership(&app.db, id).await? else { return Ok(None) };
    let (kind, paths) = (fault.kind.as_str(), fault.paths);
    let count = i32::try_from(paths.len()).unwrap_or(i32::MAX);
    pack_faults::found(&app.db, id, kind, paths.first().map(String::as_str), count, now).await?;
    let first = paths.first().map_or("(manifest)", String::as_str);
    tracing::error!(deployment = %id, project, owner, kind, path = first, files = count, "a pack is lost or damaged");
    let repaired = is_repairing && repair(app, id).await?;
    Ok(Some(Finding { deployment: id.clone(), project, owner, kind, paths, repaired }))
}

/// Takes a pack back from the replica, which must have all of it. What the store has of it is put aside.
async fn repair(app: &App, id: &DeploymentId) -> anyhow::Result<bool> {
    let Some(replica) = &app.replica else { return Ok(false) };
    let pack = match replica.fetch(id, &mut Pace::new(None)).await {
        Ok(pack) => pack,
        Err(error @ (StoreError::NotFound | StoreError::Damaged(_))) => {
            tracing::error!(deployment = %id, %error, "a pack cannot be repaired: the replica does not have it whole");
            return Ok(false);
        }
        Err(error) => return Err(anyhow::Error::from(error).context("the replica cannot be read")),
    };
    app.store.replace(id, pack, app.clock.now()).await?;
    if let Some(fault) = app.store.check_whole(id, &mut Pace::new(None)).await?.fault {
        tracing::error!(deployment = %id, kind = fault.kind.as_str(), "a pack that was taken back is damaged again");
        return Ok(false);
    }
    pack_faults::repaired(&app.db, id, app.clock.now()).await?;
    tracing::info!(deployment = %id, "a pack was taken back from the replica");
    Ok(true)
}

/// Goes on with the round through the store for `time` at most, and begins the next one when it is due. Returns the number of packs
/// that were done with. `job` is the job whose row keeps the place.
pub(crate) async fn go_on(app: &App, job: &str, time: Duration) -> anyhow::Result<u64> {
    let days = u64::from(app.config.store.check_days);
    if days == 0 {
        return Ok(0);
    }
    let now = app.clock.now();
    let stored = job_leases::cursor(&app.db, job).await?;
    let last: Option<Round> = stored.and_then(|text| serde_json::from_str(&text).ok());
    let due = |began| now.since(began) >= DAY * u32::try_from(days).unwrap_or(1);
    let mut round = match last {
        Some(round) if round.ended.is_none() || !due(round.began) => round,
        last => begin(app, now, days, last.and_then(|round| round.last_whole)).await?,
    };
    let mut done = 0;
    if round.ended.is_none() {
        // What was done before a step failed need not be done again.
        let outcome = steps(app, &mut round, time).await;
        job_leases::move_cursor(&app.db, job, Some(&serde_json::to_string(&round)?)).await?;
        done = outcome?;
    }
    metrics::store_checked(round.last_whole);
    metrics::store_faults(&pack_faults::counts(&app.db).await?);
    Ok(done)
}

async fn begin(app: &App, now: Timestamp, days: u64, last_whole: Option<Timestamp>) -> anyhow::Result<Round> {
    let bytes = u64::try_from(pack_faults::stored_bytes(&app.db).await?).unwrap_or_default();
    let seconds = days * DAY.as_secs() * ROUND_PERCENT / 100;
    let rate = (bytes / seconds).max(LEAST_RATE).min(app.config.store.check_bytes_per_second.0).max(1);
    Ok(Round { began: now, rate, is_live: true, after: None, within: None, ended: None, last_whole })
}

async fn steps(app: &App, round: &mut Round, time: Duration) -> anyhow::Result<u64> {
    let mut pace = Pace::new(Some(round.rate));
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
        let step = app.store.check(&id, from, left, &mut pace).await?;
        left = left.saturating_sub(step.read.max(1));
        if let Some(next) = step.next {
            round.within = Some((id, next));
            continue;
        }
        // A step that began within the data has not seen all of it.
        if step.fault.is_some() || from == 0 {
            conclude(app, &id, step.fault, app.replica.is_some()).await?;
        }
        (round.after, round.within) = (Some(id), None);
        done += 1;
    }
    Ok(done)
}

/// Where the copies to the replica are. Kept in the database.
#[derive(Debug, Serialize, Deserialize)]
struct Copies {
    replica: String,
    began: Timestamp,
    after: Option<DeploymentId>,
}

/// Copies packs to the replica that it does not have, the oldest first: [`COPIES`] at most. Returns their number.
pub(crate) async fn copy(app: &App, job: &str) -> anyhow::Result<u64> {
    let (Some(replica), Some(url)) = (&app.replica, &app.config.store.replica_url) else { return Ok(0) };
    let now = app.clock.now();
    let stored = job_leases::cursor(&app.db, job).await?;
    let stored: Option<Copies> = stored.and_then(|text| serde_json::from_str(&text).ok());
    let current = stored.filter(|copies| copies.replica == url.as_str() && now.since(copies.began) <= COPIES_ANEW);
    let mut copies = current.unwrap_or_else(|| Copies { replica: url.to_string(), began: now, after: None });
    let missing = pack_copies::missing(&app.db, url.as_str(), copies.after.as_ref(), COPIES).await?;
    let mut copied = 0;
    for id in &missing {
        match app.store.fetch(id, &mut Pace::new(None)).await {
            Ok(pack) => {
                replica.put_copy(id, pack).await?;
                pack_copies::copied(&app.db, id, url.as_str(), app.clock.now()).await?;
                copied += 1;
            }
            // Lost before it was copied: noted, and no reason to leave out the others.
            Err(StoreError::NotFound | StoreError::Damaged(_)) => {
                check_one(app, id, &mut Pace::new(None), false).await?;
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
