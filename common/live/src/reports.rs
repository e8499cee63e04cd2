//! What programs say of themselves every few seconds, for `admin edges` and for metrics: which machine, which version, how far, how
//! much they carry.
//!
//! One hash in Redis for each kind of program, a field for each process, with the time of Redis's own clock in front: so a report
//! outlives its process for a while, and its age does not depend on anybody's clock. Nothing waits for it, and no change is
//! acknowledged by it: that is the heartbeat of [`crate::bus`].

use std::{sync::LazyLock, time::Duration};

use redis::{RedisError, Script};
use serde::{Deserialize, Serialize};

use super::Redis;

/// Interval at which a program reports.
pub const REPORT_EVERY: Duration = Duration::from_secs(2);
/// Age from which a report is that of a program that has gone without taking it back, or that hangs.
pub const SILENT_AFTER: Duration = Duration::from_secs(15);
/// Time for which the report of a silent program is shown.
pub const KEPT: Duration = Duration::from_hours(1);
/// Most reports that are read.
const MOST: usize = 10_000;

/// Writes a report down, with the time.
static RECORD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
         redis.call('HSET', KEYS[1], ARGV[1], now .. ' ' .. ARGV[2])
         redis.call('PEXPIRE', KEYS[1], ARGV[3])
         return 1",
    )
});

/// Says the time, and every report.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
         local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
         return {now, redis.call('HVALS', KEYS[1])}",
    )
});

/// A kind of program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The edge.
    Edge,
    /// Admin.
    Admin,
}

impl Program {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Edge => "svc:reports:edge",
            Self::Admin => "svc:reports:admin",
        }
    }
}

/// What a process says of itself. Older and newer versions read each other's: every field but the first two has a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramReport {
    /// The id of the process, made up at its start.
    pub id: String,
    /// The name of its machine, or the one that the configuration gives it.
    pub name: String,
    /// The version.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
    /// When it started, in seconds since 1970.
    pub started: i64,
    /// The last change that an edge has applied; none before it knows where it starts, and of other programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// Connections that are open.
    pub connections: u64,
    /// Connections that there may be; 0 where that is not counted.
    pub most_connections: u64,
    /// Bytes of memory that are resident.
    pub memory_bytes: u64,
    /// The load of its machine over the last minute.
    pub load: f64,
    /// Whether it is ready for requests.
    pub is_ready: bool,
    /// The models of the AI gateway that an edge reaches at no provider, because it has no key there; none of other programs, and of
    /// versions that do not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_models: Option<Vec<String>>,
}

/// A report, and how long ago it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct HeardReport {
    /// What the process said.
    pub report: ProgramReport,
    /// The age of the report by Redis's clock.
    pub age: Duration,
}

impl HeardReport {
    /// Whether nothing was heard for so long that the process has gone, or hangs.
    pub fn is_silent(&self) -> bool {
        self.age >= SILENT_AFTER
    }
}

impl Redis {
    /// Writes down what a process says of itself, in the place of what it said before.
    pub async fn record_report(&self, program: Program, report: &ProgramReport) -> Result<(), RedisError> {
        let Ok(text) = serde_json::to_string(report) else { return Ok(()) };
        let mut record = RECORD.prepare_invoke();
        record.key(program.key()).arg(&report.id).arg(text).arg(millis(KEPT));
        record.invoke_async(&mut self.commands()).await
    }

    /// Takes back what the process `id` said of itself: it ends.
    pub async fn withdraw_report(&self, program: Program, id: &str) -> Result<(), RedisError> {
        redis::cmd("HDEL").arg(program.key()).arg(id).query_async(&mut self.commands()).await
    }

    /// Reads what the processes of a kind said of themselves, by name. Of those that are silent only the last of each name, where
    /// no other of that name is there, and for [`KEPT`]: a restart takes the former one's place.
    pub async fn reports(&self, program: Program) -> Result<Vec<HeardReport>, RedisError> {
        let mut read = READ.prepare_invoke();
        let (now, texts): (String, Vec<String>) = read.key(program.key()).invoke_async(&mut self.commands()).await?;
        let (reports, forgotten) = judge(&now, &texts);
        if !forgotten.is_empty() {
            let mut forget = redis::cmd("HDEL");
            forget.arg(program.key()).arg(forgotten);
            forget.query_async::<()>(&mut self.commands()).await?;
        }
        Ok(reports)
    }
}

/// The reports that are shown, and the ids of those to forget.
fn judge(now: &str, texts: &[String]) -> (Vec<HeardReport>, Vec<String>) {
    let now: u64 = now.parse().unwrap_or_default();
    let read = |text: &String| {
        let (at, json) = text.split_once(' ')?;
        let report = serde_json::from_str(json).ok()?;
        Some(HeardReport { report, age: Duration::from_millis(now.saturating_sub(at.parse().ok()?)) })
    };
    let mut reports: Vec<HeardReport> = texts.iter().take(MOST).filter_map(read).collect();
    // Of one name, the one that was heard last comes first.
    reports.sort_by(|one, other| (&one.report.name, one.age).cmp(&(&other.report.name, other.age)));
    let mut forgotten = Vec::new();
    let mut shown: Vec<HeardReport> = Vec::new();
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
        let (shown, forgotten) = judge("100500", &texts);
        let ids = |reports: &[HeardReport]| reports.iter().map(|heard| heard.report.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&shown), ["1", "3", "5", "6"], "both of an upgrade are there");
        assert_eq!(forgotten, ["2", "4"]);
        assert_eq!((shown[0].age, shown[1].is_silent()), (Duration::from_millis(500), true));
        let (shown, forgotten) = judge("3700000", &texts);
        assert_eq!((shown.len(), forgotten.len()), (0, 6));
    }
}
