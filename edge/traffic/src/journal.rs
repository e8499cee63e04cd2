//! The journal: batches on disk, so that they outlive the process and need no memory while Postgres is unavailable.

use std::path::PathBuf;

use domain::{
    ProjectId, Timestamp,
    traffic::{HourTraffic, TrafficCount, TrafficEntry, TrafficEntryKind, TrafficSums, sketch::SketchRegister},
};
use edge_metrics as metrics;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spool::Spool;

use super::batch::TrafficBatch;

pub(super) type BatchJournal = Spool<TrafficBatch>;

pub(super) fn open(folder: PathBuf, edge: &str) -> BatchJournal {
    Spool::new(spool::SpoolOptions {
        folder,
        owner: edge.to_owned(),
        former_scope: String::new(),
        segment_bytes: limits::TRAFFIC_SEGMENT,
        released_bytes: limits::TRAFFIC_SEGMENT_RELEASED,
        max_bytes: limits::TRAFFIC_JOURNAL_BYTES,
        kept_for: std::time::Duration::ZERO,
        kept_bytes: 0,
    })
}

impl spool::SpoolRecord for TrafficBatch {
    type Ref<'a> = &'a Self;

    const SUFFIX: &'static str = ".traffic";
    const KIND: &'static str = "traffic";
    const ERRORS: &'static str = "svc_traffic_journal_errors_total";
    const SLOW: &'static str = "svc_traffic_journal_slow_total";
    const FOREIGN: &'static str = "svc_traffic_journals_foreign";

    fn count(batch: &Self::Ref<'_>) -> u64 {
        batch.answers()
    }

    fn note_damaged(lost: u64) {
        metrics::traffic_lost("damaged", lost);
    }
}

#[derive(Serialize, Deserialize)]
struct BatchLine<P, K> {
    batch: i64,
    hour: i64,
    parts: Vec<ProjectLine<P, K>>,
}

/// A project; its sums; its entries as kind, key, requests and bytes; its visitors in their stored form.
type ProjectLine<P, K> = (P, [u64; 11], Vec<(TrafficEntryKind, K, u64, u64)>, Vec<i32>);

impl Serialize for TrafficBatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hour = self.hour().map_or(0, |hour| i64::try_from(hour.unix_millis()).unwrap_or(i64::MAX));
        BatchLine { batch: self.number, hour, parts: self.traffic.iter().map(part).collect() }.serialize(serializer)
    }
}

fn part(HourTraffic { hour: _, project, sums, entries, visitors }: &HourTraffic) -> ProjectLine<&ProjectId, &str> {
    let TrafficSums { requests, bytes, cache_hits, cache_misses, statuses, pageviews, people_bytes } = *sums;
    let [s2, s3, s4, s5, other] = statuses;
    let sums = [requests, bytes, cache_hits, cache_misses, s2, s3, s4, s5, other, pageviews, people_bytes];
    let entries =
        entries.iter().map(|TrafficEntry { kind, key, count }| (*kind, &**key, count.requests, count.bytes)).collect();
    (project, sums, entries, visitors.iter().map(|register| register.to_stored()).collect())
}

impl<'de> Deserialize<'de> for TrafficBatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let BatchLine { batch, hour, parts } = BatchLine::<ProjectId, Box<str>>::deserialize(deserializer)?;
        let hour = Timestamp::from_unix_millis(hour);
        let traffic = parts.into_iter().map(|(project, sums, entries, visitors)| {
            let [requests, bytes, cache_hits, cache_misses, s2, s3, s4, s5, other, pageviews, people_bytes] = sums;
            let statuses = [s2, s3, s4, s5, other];
            let entry =
                |(kind, key, requests, bytes)| TrafficEntry { kind, key, count: TrafficCount { requests, bytes } };
            HourTraffic {
                hour,
                project,
                sums: TrafficSums { requests, bytes, cache_hits, cache_misses, statuses, pageviews, people_bytes },
                entries: entries.into_iter().map(entry).collect(),
                visitors: visitors.into_iter().filter_map(SketchRegister::from_stored).collect(),
            }
        });
        Ok(Self { number: batch, traffic: traffic.collect() })
    }
}
