//! The running programs, as reported by themselves: for `admin edges`, `admin admins` and the metrics of edges.
//!
//! These reports decide nothing: heartbeats determine which edges a change waits for, in [`app::edges`].

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use domain::{Clock, Timestamp};
use live::{
    Redis, RedisError,
    reports::{ProgramKind, ProgramReport, REPORT_EVERY, ReceivedReport},
};
use serde::Serialize;
use sqlx::PgPool;
use telemetry::{
    BuildInfo,
    health::Health,
    metrics::PageSection,
    process,
    text::{MetricKind, family},
};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Interval at which reports are read for the metrics.
const READ_EVERY: Duration = Duration::from_secs(5);
/// Timeout of reading the last change, which gives the lag of edges.
const LAST_CHANGE_WAIT: Duration = Duration::from_secs(1);

/// A program that runs or did within the last hour.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedProgram {
    /// The program's last report.
    #[serde(flatten)]
    pub report: ProgramReport,
    /// The age of the report, in seconds.
    pub age_seconds: f64,
    /// The number of changes still to apply; `None` for programs other than edges, and while Postgres is unavailable.
    pub lag: Option<i64>,
    /// The state: `ready`, `not_ready` (starting or draining) or `silent`.
    pub state: &'static str,
}

/// Lists the programs of a kind, by name.
pub async fn list(redis: &Redis, db: &PgPool, program: ProgramKind) -> Result<Vec<ListedProgram>, RedisError> {
    // Read concurrently: a change in between would show as a lag that does not exist.
    let last_change = async {
        let asked = timeout(LAST_CHANGE_WAIT, db::edges::routes::current_extent(db)).await;
        asked.ok().and_then(Result::ok).map(|extent| extent.position.seq)
    };
    let (reports, last_change) = tokio::join!(redis.reports(program), last_change);
    Ok(reports?.into_iter().map(|heard| ListedProgram::from_report(heard, last_change)).collect())
}

impl ListedProgram {
    fn from_report(heard: ReceivedReport, last_change: Option<i64>) -> Self {
        let state = match (heard.is_silent(), heard.report.is_ready) {
            (true, _) => "silent",
            (false, true) => "ready",
            (false, false) => "not_ready",
        };
        let lag = last_change.zip(heard.report.seq).map(|(last, seq)| (last - seq).max(0));
        Self { age_seconds: heard.age.as_secs_f64(), lag, state, report: heard.report }
    }
}

/// Formats the programs as a table for people.
pub fn table(list: &[ListedProgram], now: Timestamp) -> String {
    if list.is_empty() {
        return "No program has reported within the last hour.\n".to_owned();
    }
    let head = ["name", "id", "version", "commit", "state", "heard", "lag", "connections", "memory", "load", "up"];
    let mut rows = vec![head.map(str::to_owned)];
    for ListedProgram { report, age_seconds, lag, state } in list {
        let connections = match report.most_connections {
            0 => "-".to_owned(),
            most => format!("{}/{most}", report.connections),
        };
        let up = now.unix_seconds().saturating_sub(report.started);
        rows.push([
            report.name.clone(),
            report.id.clone(),
            report.version.clone(),
            report.commit.clone(),
            (*state).to_owned(),
            format!("{age_seconds:.0} s ago"),
            lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string()),
            connections,
            format!("{} MB", report.memory_bytes / 1_000_000),
            format!("{:.1}", report.load),
            if *state == "silent" { "-".to_owned() } else { format!("{} h {} min", up / 3_600, up / 60 % 60) },
        ]);
    }
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// This admin's own report.
pub struct ProgramPresence {
    /// The name of its machine.
    pub name: String,
    /// The version and commit that it was built from.
    pub build: BuildInfo,
    /// Whether it is ready.
    pub health: Health,
}

impl ProgramPresence {
    /// Reports to Redis until `stop`, then removes the report.
    pub async fn report(self, redis: Redis, clock: Clock, stop: CancellationToken) {
        let (id, started) = (hex::encode(rand::random::<[u8; 8]>()), clock.now());
        let mut every = interval(REPORT_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = every.tick() => {}
            }
            let report = ProgramReport {
                id: id.clone(),
                name: self.name.clone(),
                version: self.build.version.to_owned(),
                commit: self.build.commit.to_owned(),
                started: started.unix_seconds(),
                memory_bytes: process::ProcessStats::read().resident_bytes,
                load: process::load(),
                is_ready: self.health.is_ready(),
                ..ProgramReport::default()
            };
            // While Redis is unavailable, nobody can read the report either.
            let _ = redis.record_report(ProgramKind::Admin, &report).await;
        }
        let _ = redis.withdraw_report(ProgramKind::Admin, &id).await;
    }
}

/// The edges for the metrics page, which has lines for each recent edge. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct EdgePrograms(Arc<Mutex<Vec<ListedProgram>>>);

impl EdgePrograms {
    /// Reads the reports of edges for as long as it is polled. While Redis is unavailable, no edges are known.
    pub async fn watch(self, redis: Redis, db: PgPool) {
        loop {
            let listed = list(&redis, &db, ProgramKind::Edge).await.unwrap_or_default();
            *self.edges() = listed;
            sleep(READ_EVERY).await;
        }
    }

    /// Returns the edges' section of the metrics page.
    pub fn section(&self) -> PageSection {
        let this = self.clone();
        Box::new(move |page| write(page, &this.edges()))
    }

    fn edges(&self) -> MutexGuard<'_, Vec<ListedProgram>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn write(page: &mut String, edges: &[ListedProgram]) {
    let of = |edge: &'_ ListedProgram| vec![("edge", edge.report.name.clone()), ("id", edge.report.id.clone())];
    let owned: Vec<Vec<(&'static str, String)>> = edges.iter().map(of).collect();
    let labels = |at: usize| owned[at].iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>();
    let heard = edges.iter().enumerate();
    family(
        page,
        "svc_edge_heartbeat_age_seconds",
        MetricKind::Gauge,
        "Seconds since admin last heard of an edge; shown for an hour after it fell silent, unless another edge of its name is there.",
        heard.clone().map(|(at, edge)| (labels(at), edge.age_seconds)),
    );
    family(
        page,
        "svc_edge_lag_changes",
        MetricKind::Gauge,
        "Changes of routes that an edge has still to apply.",
        heard.clone().filter_map(|(at, edge)| Some((labels(at), edge.lag? as f64))),
    );
    family(
        page,
        "svc_edge_ready",
        MetricKind::Gauge,
        "Whether an edge says that it is ready for requests.",
        heard.clone().map(|(at, edge)| (labels(at), if edge.state == "ready" { 1.0 } else { 0.0 })),
    );
    let versions = heard.map(|(at, edge)| {
        let version = [("version", edge.report.version.as_str()), ("commit", edge.report.commit.as_str())];
        (labels(at).into_iter().chain(version).collect(), 1.0)
    });
    family(page, "svc_edge_info", MetricKind::Gauge, "Always 1; its labels say which version an edge runs.", versions);
    let live = edges.iter().filter(|edge| edge.state != "silent").count();
    family(page, "svc_edges", MetricKind::Gauge, "Edges that admin hears of.", [(Vec::new(), live as f64)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(name: &str, age: u64, seq: Option<i64>) -> ReceivedReport {
        let report = ProgramReport {
            id: format!("id-of-{name}"),
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            commit: "abc".to_owned(),
            seq,
            connections: 7,
            most_connections: 100,
            memory_bytes: 50_000_000,
            is_ready: true,
            ..ProgramReport::default()
        };
        ReceivedReport { report, age: Duration::from_secs(age) }
    }

    #[test]
    fn an_edge_is_a_line_of_the_table_and_of_each_metric() {
        let list = [
            ListedProgram::from_report(heard("a", 1, Some(40)), Some(42)),
            ListedProgram::from_report(heard("b", 60, None), Some(42)),
        ];
        let text = table(&list, Timestamp::from_unix_millis(3_660_000));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("a     id-of-a  0.1.0    abc     ready   1 s ago   2    7/100"), "{text}");
        assert!(lines[1].ends_with("50 MB   0.0   1 h 1 min"), "{text}");
        assert!(lines[2].contains("silent  60 s ago  -"), "{text}");
        let mut page = String::new();
        write(&mut page, &list);
        for line in [
            "svc_edge_heartbeat_age_seconds{edge=\"b\",id=\"id-of-b\"} 60\n",
            "svc_edge_lag_changes{edge=\"a\",id=\"id-of-a\"} 2\n",
            "svc_edge_ready{edge=\"b\",id=\"id-of-b\"} 0\n",
            "svc_edge_info{edge=\"a\",id=\"id-of-a\",version=\"0.1.0\",commit=\"abc\"} 1\n",
            "svc_edges 1\n",
        ] {
            assert!(page.contains(line), "{line} in\n{page}");
        }
        assert!(!page.contains("svc_edge_lag_changes{edge=\"b\""));
    }
}
