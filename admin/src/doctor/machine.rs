//! This machine: its clock and its disks.

use std::{path::PathBuf, time::Duration};

use config::Config;
use db::upkeep::identity;
use diagnosis::{CheckOutcome, explain_postgres, explain_redis, fail, warn};
use domain::{Clock, Timestamp};
use live::Redis;
use packs::DiskSpace;
use sqlx::PgPool;

/// The clock differences that cause a warning and a failure.
const SKEW_WARNED: Duration = Duration::from_secs(2);
const SKEW_FAILED: Duration = Duration::from_mins(2);

pub(super) async fn clock_of_postgres(db: PgPool) -> CheckOutcome {
    let before = Clock::system().now();
    match identity::server(&db).await {
        Ok(server) => skew("Postgres", server.now, before),
        Err(error) => fail(explain_postgres(&error), "see `postgres`"),
    }
}

/// Compares this machine's clock with Redis's, which decides the day to which a completion is charged.
pub(super) async fn clock_of_redis(redis: Redis) -> CheckOutcome {
    let before = Clock::system().now();
    match redis.time().await {
        Ok(time) => skew("Redis", time, before),
        Err(error) => fail(explain_redis(&error), "see `redis`"),
    }
}

fn skew(whose: &str, there: Timestamp, before: Timestamp) -> CheckOutcome {
    // The other clock was read some time between these two.
    let after = Clock::system().now();
    let difference = if there < before { before.since(there) } else { there.since(after) };
    let said = format!("{whose}'s clock and this machine's differ by {} ms", difference.as_millis());
    let fix = "have both machines keep time by NTP (`timedatectl`)";
    match difference {
        _ if difference >= SKEW_FAILED => fail(said, fix),
        _ if difference >= SKEW_WARNED => warn(said, fix),
        _ => Ok(said),
    }
}

pub(super) fn folders(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let mut folders = vec![("uploads", config.admin.spool.clone().unwrap_or_else(std::env::temp_dir))];
    if let Some(spool) = config.edge.spool.clone().filter(|spool| spool.exists()) {
        folders.push(("edge's spool", spool));
    }
    if let ("file", Ok(store)) = (config.store.url.scheme(), config.store.url.to_file_path()) {
        folders.push(("store", store));
    }
    folders
}

pub(super) async fn disk(folder: PathBuf, least_percent: u8) -> CheckOutcome {
    let (asked, shown) = (folder.clone(), folder.display().to_string());
    match tokio::task::spawn_blocking(move || DiskSpace::for_folder(&asked)).await {
        Ok(Ok(space)) => {
            let percent = u128::from(space.free) * 100 / u128::from(space.total.max(1));
            let said = format!("{shown}: {percent} % free, {} MB", space.free / 1_000_000);
            if space.is_below(least_percent) {
                return fail(said, "uploads are refused until there is room (admin.free_disk_percent): make some");
            }
            if space.is_below(least_percent.saturating_mul(2)) {
                return warn(said, "make room before uploads are refused (admin.free_disk_percent)");
            }
            Ok(said)
        }
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            warn(format!("{shown} does not exist"), "admin makes it at its start, if it may")
        }
        Ok(Err(error)) => fail(format!("{shown}: {error}"), "does the folder exist, and may this user read it?"),
        Err(error) => fail(format!("{shown}: {error}"), "try again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_found_in_both_directions() {
        let now = Clock::system().now();
        assert!(skew("Redis", now, now).is_ok());
        for (there, is_bad) in [(Duration::from_secs(10), false), (Duration::from_hours(1), true)] {
            for other in [now + there, now - there] {
                let mut report = diagnosis::CheckReport::default();
                report.add("clock", skew("Redis", other, now));
                assert_eq!(report.is_good(), !is_bad, "{}", report.lines());
                assert!(!report.lines().starts_with("OK"), "{}", report.lines());
            }
        }
    }
}
