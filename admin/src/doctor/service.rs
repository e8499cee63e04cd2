//! Checks the service itself: its jobs, exports, backups and edges.

use std::{collections::BTreeSet, time::Duration};

use db::{
    edges::lost_changes,
    gateway::usage_export::{self, ExportState},
    upkeep::{backups, identity, job_leases},
};
use diagnosis::{CheckOutcome, explain_postgres, explain_redis, fail, warn};
use domain::Clock;
use futures_util::StreamExt as _;
use live::{
    Redis,
    bus::{ACKS_CHANNEL, EdgeHeartbeat, HEARTBEAT_EVERY},
};
use sqlx::PgPool;
use tokio::time::timeout;

const JOBS_NAMED: i64 = 10;
/// The number up to which completions waiting for the usage export are counted.
const EXPORT_COUNTED: i64 = 100_000;
/// The age of the last backup above which a warning appears: one is made every hour. The alert `BackupOld` uses the
/// same value.
const OLDEST_BACKUP: Duration = Duration::from_hours(3);
/// How long heartbeats are collected: each edge sends one per interval.
const LISTEN: Duration = HEARTBEAT_EVERY.saturating_mul(5);

pub(super) async fn jobs(db: PgPool) -> CheckOutcome {
    match job_leases::list_failing(&db, JOBS_NAMED).await {
        Ok(failing) if failing.is_empty() => Ok("no job's last run failed".to_owned()),
        Ok(failing) => {
            let said = failing.iter().map(|failed| format!("`{}`: {}", failed.job, failed.error)).collect::<Vec<_>>();
            warn(
                format!("the last run failed of {}", said.join("; ")),
                "see to the cause; each is tried again by itself",
            )
        }
        Err(error) if identity::is_unmigrated(&error) => warn("the database has no tables", "run `admin migrate`"),
        Err(error) => fail(explain_postgres(&error), "see `postgres`"),
    }
}

pub(super) async fn usage_export(db: PgPool, is_configured: bool) -> CheckOutcome {
    let asked =
        async { Ok((usage_export::find_state(&db).await?, usage_export::count_waiting(&db, EXPORT_COUNTED).await?)) };
    let (standing, waiting) = match asked.await {
        Ok(found) => found,
        Err(error) if identity::is_unmigrated(&error) => {
            return warn("the database has no tables", "run `admin migrate`");
        }
        Err(error) => return fail(explain_postgres(&error), "see `postgres`"),
    };
    let count = if waiting < EXPORT_COUNTED { waiting.to_string() } else { format!("{waiting} or more") };
    match standing {
        _ if !is_configured => Ok("usage is sent nowhere (telemetry.usage_url is not set)".to_owned()),
        Some(ExportState { failures, error, due_at }) if failures > 0 => warn(
            format!(
                "failures in a row: {failures}, completions that wait: {count}, next try: {due_at}; {}",
                error.unwrap_or_default()
            ),
            "see to what telemetry.usage_url leads to; nothing is lost, and what waits is sent when it answers",
        ),
        Some(_) => Ok(format!("usage is sent; {count} completions wait")),
        None => warn(
            "usage is not sent yet, although telemetry.usage_url is set",
            "does an admin run with this configuration?",
        ),
    }
}

pub(super) async fn backup(db: PgPool) -> CheckOutcome {
    match backups::last(&db).await {
        Ok(Some(began_at)) => {
            let age = Clock::system().now().since(began_at);
            if age > OLDEST_BACKUP {
                let hours = age.as_secs() / 3_600;
                let help = "see why `admin backup` has not run, or failed: deploy/runbook/backup-old.md";
                return warn(format!("the last one was made {hours} hours ago"), help);
            }
            Ok(format!("the last one was made at {began_at}"))
        }
        Ok(None) => warn(
            "`admin backup` has never made one",
            "have a timer make one every hour: deploy/runbook/backup.md. If other means do, this says nothing of them",
        ),
        Err(error) if identity::is_unmigrated(&error) => warn("the database has no tables", "run `admin migrate`"),
        Err(error) => fail(explain_postgres(&error), "see `postgres`"),
    }
}

pub(super) async fn lost_changes(db: PgPool) -> CheckOutcome {
    let since = Clock::system().now() - lost_changes::SHOWN_FOR;
    match lost_changes::list_unacknowledged(&db, since, lost_changes::SHOWN).await {
        Ok(losses) if losses.is_empty() => Ok("edges know of no change that the database lacks".to_owned()),
        Ok(losses) => {
            let said = losses.iter().map(|loss| {
                let (reached, newest, at) = (loss.last_seq, loss.newest_seq, loss.noted_at);
                format!(
                    "edges had reached {reached} when the newest change was {newest} ({at}): from {} on all are lost",
                    loss.first_seq
                )
            });
            warn(
                said.collect::<Vec<_>>().join("; "),
                "`admin lost-changes` names what to check (deploy/runbook/changes-lost.md), and ends this with --acknowledge",
            )
        }
        Err(error) if identity::is_unmigrated(&error) => warn("the database has no tables", "run `admin migrate`"),
        Err(error) => fail(error.to_string(), "see `postgres`"),
    }
}

pub(super) async fn edges(redis: Redis) -> CheckOutcome {
    let mut heard = BTreeSet::new();
    let subscribed = async {
        let mut subscriber = redis.subscriber().await?;
        subscriber.subscribe(ACKS_CHANNEL).await?;
        let mut beats = subscriber.into_on_message();
        let listening = async {
            while let Some(beat) = beats.next().await {
                if let Ok(beat) = serde_json::from_slice::<EdgeHeartbeat>(beat.get_payload_bytes()) {
                    heard.insert(beat.edge);
                }
            }
        };
        let _ = timeout(LISTEN, listening).await;
        Ok::<(), live::RedisError>(())
    };
    if let Err(error) = subscribed.await {
        return fail(explain_redis(&error), "see `redis`");
    }
    match heard.len() {
        0 => fail("no edge is heard on Redis", "does an edge run, and has it the same redis.url?"),
        count => Ok(format!("{count} heard: {}", heard.into_iter().collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alert_and_the_doctor_call_the_same_backup_old() {
        let alerts = include_str!("../../../deploy/observe/alerts.yml");
        let expr = format!("time() - max(svc_backup_last_timestamp_seconds) > {}'", OLDEST_BACKUP.as_secs());
        assert!(alerts.contains(&expr), "{expr}");
    }
}
