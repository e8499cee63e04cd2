//! Status reports of programs every few seconds, for `admin edges` and for metrics: machine, version, position, load.
//!
//! Each kind of program has one hash in Redis, with a field for each process that begins with the time by Redis's
//! clock. So a report outlives its process for a while, and its age does not depend on the clocks of machines. Reports
//! acknowledge no change: that is the heartbeat of [`crate::bus`].

use std::{sync::LazyLock, time::Duration};

use redis::{RedisError, Script};
use serde::{Deserialize, Serialize};

use super::Redis;

/// The interval of a program's reports.
pub const REPORT_EVERY: Duration = Duration::from_secs(2);
/// The age above which a report belongs to a program that hangs, or ended without withdrawing it.
pub const SILENT_AFTER: Duration = Duration::from_secs(15);
/// How long the report of a silent program is shown.
pub const KEPT: Duration = Duration::from_hours(1);
const MOST: usize = 10_000;

static RECORD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
         redis.call('HSET', KEYS[1], ARGV[1], now .. ' ' .. ARGV[2])
         redis.call('PEXPIRE', KEYS[1], ARGV[3])
         return 1",
    )
});

static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
         return {now, redis.call('HVALS', KEYS[1])}",
    )
});

/// A kind of program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// The edge.
    Edge,
    /// Admin.
    Admin,
}

impl ProgramKind {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Edge => "svc:reports:edge",
            Self::Admin => "svc:reports:admin",
        }
    }
}

/// The report of a process. Versions read each other's reports: every field but the first two has a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramReport {
    /// The id of the process, generated at its start.
    pub id: String,
    /// The name of its machine, or the one in its configuration.
    pub name: String,
    /// The version.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
    /// The start time, in seconds since 1970.
    pub started: i64,
    /// The last change that an edge has applied. Absent before its starting position is known, and for other programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// Open connections.
    pub connections: u64,
    /// The limit of connections; 0 if they are not counted.
    pub most_connections: u64,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
    /// The load average of its machine over the last minute.
    pub load: f64,
    /// Whether it is ready for requests.
    pub is_ready: bool,
    /// The AI gateway's models for which an edge has no provider's key. Absent for other programs and older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_models: Option<Vec<String>>,
}

/// A report and its age.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedReport {
    /// The report.
    pub report: ProgramReport,
    /// The age of the report by Redis's clock.
    pub age: Duration,
}

impl ReceivedReport {
    /// Returns whether the report is so old that the process has ended or hangs.
    pub fn is_silent(&self) -> bool {
        self.age >= SILENT_AFTER
    }
}

impl Redis {
    /// Stores the report of a process, replacing its previous one.
    pub async fn record_report(&self, program: ProgramKind, report: &ProgramReport) -> Result<(), RedisError> {
        let Ok(text) = serde_json::to_string(report) else { return Ok(()) };
        let mut record = RECORD.prepare_invoke();
        record.key(program.key()).arg(&report.id).arg(text).arg(millis(KEPT));
        record.invoke_async(&mut self.commands()).await
    }

    /// Removes the report of the process `id`, which ends.
    pub async fn withdraw_report(&self, program: ProgramKind, id: &str) -> Result<(), RedisError> {
        redis::cmd("HDEL").arg(program.key()).arg(id).query_async(&mut self.commands()).await
    }

    /// Returns the reports of the processes of a kind, by name. A silent process is included for [`KEPT`], as the last
    /// of its name and only if no live process has that name: a restarted process replaces the former one.
    pub async fn reports(&self, program: ProgramKind) -> Result<Vec<ReceivedReport>, RedisError> {
        let mut read = READ.prepare_invoke();
        let (now, texts): (String, Vec<String>) = read.key(program.key()).invoke_async(&mut self.commands()).await?;
        let (reports, forgotten) = select_reports(&now, &texts);
        if !forgotten.is_empty() {
            let mut forget = redis::cmd("HDEL");
            forget.arg(program.key()).arg(forgotten);
            forget.query_async::<()>(&mut self.commands()).await?;
        }
        Ok(reports)
    }
}

fn select_reports(now: &str, texts: &[String]) -> (Vec<ReceivedReport>, Vec<String>) {
    let now: u64 = now.parse().unwrap_or_default();
    let read = |text: &String| {
        let (at, json) = text.split_once(' ')?;
        let report = serde_json::from_str(json).ok()?;
        Some(ReceivedReport { report, age: Duration::from_millis(now.saturating_sub(at.parse().ok()?)) })
    };
    let mut reports: Vec<ReceivedReport> = texts.iter().take(MOST).filter_map(read).collect();
    // For each name, the most recent comes first.
    reports.sort_by(|one, other| (&one.report.name, one.age).cmp(&(&other.report.name, other.age)));
    let mut forgotten = Vec::new();
    let mut shown: Vec<ReceivedReport> = Vec::new();
    for heard in reports {
        let is_replaced = shown.last().is_some_and(|last| last.report.name == heard.report.name);
        if heard.is_silent() && (is_replaced || heard.age >= KEPT) {
            forgotten.push(heard.report.id);
        } else {
            shown.push(heard);
        }
    }
    (shown, forgotten)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(at: u64, id: &str, name: &str) -> String {
        format!("{at} {}", serde_json::json!({ "id": id, "name": name, "of a later version": 1 }))
    }

    #[test]
    fn a_silent_program_is_shown_until_another_of_its_name_is_there() {
        let texts = [
            text(100_000, "1", "a"),
            text(10_000, "2", "a"),
            text(50_000, "3", "b"),
            text(40_000, "4", "b"),
            text(99_000, "5", "c"),
            text(98_000, "6", "c"),
            "garbage".to_owned(),
        ];
        let (shown, forgotten) = select_reports("100500", &texts);
        let ids = |reports: &[ReceivedReport]| reports.iter().map(|heard| heard.report.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&shown), ["1", "3", "5", "6"], "both of an upgrade are there");
        assert_eq!(forgotten, ["2", "4"]);
        assert_eq!((shown[0].age, shown[1].is_silent()), (Duration::from_millis(500), true));
        let (shown, forgotten) = select_reports("3700000", &texts);
        assert_eq!((shown.len(), forgotten.len()), (0, 6));
    }
}
