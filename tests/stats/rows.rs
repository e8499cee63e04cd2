//! Traffic that nobody made: rows as edges and jobs write them, for numbers that are known exactly.

use std::sync::atomic::{AtomicU32, Ordering};

use domain::traffic::{
    TrafficSums,
    sketch::SketchRegister,
    visitors::{ClassEvidence, VisitorClass},
};
use serde_json::Value;

use super::*;

/// Kind, key, requests and bytes.
pub(super) type Entry = (&'static str, &'static str, u64, u64);

/// Sums of so many answers with 200 and so many bytes, of which some are views.
pub(super) fn sums(requests: u64, bytes: u64, pageviews: u64) -> TrafficSums {
    TrafficSums {
        requests,
        bytes,
        statuses: [requests, 0, 0, 0, 0],
        pageviews,
        people_bytes: bytes,
        ..TrafficSums::default()
    }
}

/// The key of an agent.
pub(super) fn agent(class: VisitorClass, agent: &str, evidence: ClassEvidence) -> &'static str {
    domain::traffic::AgentKey { class, agent, evidence }.encode().leak()
}

fn columns(sums: &TrafficSums) -> String {
    let TrafficSums { requests, bytes, cache_hits, cache_misses, statuses, pageviews, people_bytes } = sums;
    let [s2, s3, s4, s5, other] = statuses;
    format!(
        "{requests}, {bytes}, {cache_hits}, {cache_misses}, {s2}, {s3}, {s4}, {s5}, {other}, {pageviews}, {people_bytes}"
    )
}

/// As text of SQL.
fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let quoted: Vec<String> = texts.map(|text| format!("'{}'", text.replace('\'', "''"))).collect();
    format!("ARRAY[{}]::text[]", quoted.join(", "))
}

fn numbers(numbers: impl Iterator<Item = u64>) -> String {
    let written: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("ARRAY[{}]::bigint[]", written.join(", "))
}

const PROJECT: &str = "(SELECT id FROM projects WHERE name = 'engine')";
const COLUMNS: &str = "requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx, status_4xx, status_5xx, \
                       status_other, pageviews, people_bytes";

impl Visited {
    /// Appends a part of a batch, as an edge does, of the hour so many hours ago, with these of many visitors.
    pub(super) async fn append(
        &self,
        hours_ago: u32,
        sums: &TrafficSums,
        entries: &[Entry],
        visitors: std::ops::Range<u64>,
    ) {
        static BATCHES: AtomicU32 = AtomicU32::new(1);
        let batch = BATCHES.fetch_add(1, Ordering::Relaxed);
        let parts = entries.iter().map(|_| 1);
        let registers: Vec<String> =
            visitors.map(|visitor| SketchRegister::from_hash(mixed(visitor)).to_stored().to_string()).collect();
        let sql = format!(
            "SELECT append_traffic('rows', {batch}, ARRAY[now() - interval '{hours_ago} hours'], ARRAY[{PROJECT}],
                 ARRAY[{}]::bigint[], {}::integer[], {}, {}, {}, {}, {}::integer[], ARRAY[{}]::integer[])::text",
            columns(sums),
            numbers(parts),
            texts(entries.iter().map(|entry| entry.0)),
            texts(entries.iter().map(|entry| entry.1)),
            numbers(entries.iter().map(|entry| entry.2)),
            numbers(entries.iter().map(|entry| entry.3)),
            numbers(registers.iter().map(|_| 1)),
            registers.join(", "),
        );
        assert_eq!(self.world.sql_text(&sql).await, "true");
    }

    /// Writes an hour as the fold leaves it.
    pub(super) async fn write_hour(&self, hours_ago: u32, sums: &TrafficSums, entries: &[Entry]) {
        let hour = format!("date_trunc('hour', now(), 'UTC') - interval '{hours_ago} hours'");
        self.world
            .sql(&format!(
                "INSERT INTO traffic_hours (hour, project_id, {COLUMNS}, is_rolled)
                 VALUES ({hour}, {PROJECT}, {}, true);
                 INSERT INTO traffic_hour_entries (hour, project_id, kind, key, requests, bytes)
                 SELECT {hour}, {PROJECT}, kind, key, requests, bytes
                 FROM unnest({}, {}, {}, {}) AS entry (kind, key, requests, bytes)",
                columns(sums),
                texts(entries.iter().map(|entry| entry.0)),
                texts(entries.iter().map(|entry| entry.1)),
                numbers(entries.iter().map(|entry| entry.2)),
                numbers(entries.iter().map(|entry| entry.3)),
            ))
            .await;
    }

    /// Writes a day as the job leaves it.
    pub(super) async fn write_day(&self, days_ago: u32, sums: &TrafficSums, visitors: u64, lists: &Value) {
        let lists = lists.to_string().replace('\'', "''");
        self.world
            .sql(&format!(
                "INSERT INTO traffic_days (day, project_id, {COLUMNS}, visitors, lists)
                 VALUES ((now() AT TIME ZONE 'UTC')::date - {days_ago}, {PROJECT}, {}, {visitors}, '{lists}')",
                columns(sums)
            ))
            .await;
    }

    /// A report of the project.
    pub(super) async fn report(&self, path: &str) -> Value {
        let separator = if path.is_empty() || path.starts_with('?') { "" } else { "/" };
        self.ada.get(&format!("/projects/engine/stats{separator}{path}")).await.ok()
    }
}

/// A hash whose every bit is as good as random (`SplitMix64`).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
