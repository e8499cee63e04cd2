//! Batches: traffic in the form that is sent to Postgres.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry as Place};

use domain::{
    ProjectId, Timestamp,
    traffic::{HourTraffic, OTHER, TrafficEntry, TrafficEntryKind, TrafficSums},
};

use super::{ShardCounts, hour_keys::HourKeys};

/// Approximate memory in bytes of a project's part of a batch, without its keys.
const ENTRY_WEIGHT_OF_PART: usize = 256;
const ENTRY_WEIGHT: usize = 48;

/// A part of an edge's collected traffic, at most as large as Postgres accepts in one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrafficBatch {
    /// The number among the batches of its edge, which stays until Postgres confirms it. Postgres may already have it.
    pub(super) number: i64,
    pub(super) traffic: Vec<HourTraffic>,
}

#[derive(Debug)]
pub(super) struct CollectedTraffic {
    pub(super) traffic: Vec<HourTraffic>,
    /// Responses that are not counted at all, because there was no room for their project.
    pub(super) dropped: u64,
    pub(super) others: u64,
}

impl TrafficBatch {
    pub(super) fn answers(&self) -> u64 {
        self.traffic.iter().map(|part| part.sums.requests).sum()
    }

    pub(super) fn hour(&self) -> Option<Timestamp> {
        self.traffic.first().map(|part| part.hour)
    }

    /// Returns whether it is too old to send: Postgres may have forgotten that it already has it.
    pub(super) fn is_too_old(&self, now: Timestamp) -> bool {
        self.hour().is_none_or(|hour| hour < now - limits::TRAFFIC_SENT_WITHIN)
    }

    /// Removes the traffic of a site that was sent ahead with all batches up to `last`.
    pub(super) fn remove_project(&mut self, project: &ProjectId, last: i64) {
        if self.number <= last {
            self.traffic.retain(|part| part.project != *project);
        }
    }

    pub(super) fn weight(&self) -> usize {
        self.traffic.iter().map(weight).sum()
    }
}

fn weight(part: &HourTraffic) -> usize {
    let keys: usize = part.entries.iter().map(|entry| entry.key.len() + ENTRY_WEIGHT).sum();
    ENTRY_WEIGHT_OF_PART + keys + size_of_val(part.visitors.as_slice())
}

impl CollectedTraffic {
    /// Merges the counts of all threads within `hour`. `keys` bounds the number of distinct keys.
    pub(super) fn from_counts(
        counts: impl IntoIterator<Item = ShardCounts>,
        hour: Timestamp,
        keys: &mut HourKeys,
    ) -> Self {
        keys.begin(hour);
        let (mut dropped, mut parts) = (0, Vec::new());
        for ShardCounts { projects, room, dropped: of_thread, .. } in counts {
            dropped += of_thread;
            parts.extend(projects.into_iter().map(|(project, mut tally)| {
                if let Some(payer) = room.find_payer(&tally) {
                    keys.retain_allowed(payer, &project, &mut tally);
                }
                tally.into_traffic(hour, project)
            }));
        }
        let traffic = merge(parts);
        let is_lacking = |entry: &&TrafficEntry| {
            matches!(entry.kind, TrafficEntryKind::Hostname | TrafficEntryKind::Path | TrafficEntryKind::Error)
                && *entry.key == *OTHER
        };
        let lacking = traffic.iter().flat_map(|part| &part.entries).filter(is_lacking);
        let others = lacking.map(|entry| entry.count.requests).sum();
        Self { traffic, dropped, others }
    }
}

/// Merges the parts of each project, and the entries of each key: several threads count the same ones.
pub(super) fn merge(parts: Vec<HourTraffic>) -> Vec<HourTraffic> {
    let mut projects: BTreeMap<ProjectId, (HourTraffic, bool)> = BTreeMap::new();
    for part in parts {
        match projects.entry(part.project.clone()) {
            Place::Vacant(place) => {
                place.insert((part, false));
            }
            Place::Occupied(mut place) => {
                let (known, is_merged) = place.get_mut();
                known.sums.add(&part.sums);
                known.entries.extend(part.entries);
                known.visitors.extend(part.visitors);
                *is_merged = true;
            }
        }
    }
    let finish = |(mut part, is_merged): (HourTraffic, bool)| {
        if is_merged {
            part.entries.sort_unstable_by(|one, other| (one.kind, &one.key).cmp(&(other.kind, &other.key)));
            part.entries.dedup_by(|next, kept| {
                let is_same = (next.kind, &next.key) == (kept.kind, &kept.key);
                if is_same {
                    kept.count.add(next.count);
                }
                is_same
            });
            part.visitors.sort_unstable();
            part.visitors.dedup();
        }
        part
    };
    projects.into_values().map(finish).collect()
}

pub(super) fn split_batches(traffic: Vec<HourTraffic>) -> impl Iterator<Item = Vec<HourTraffic>> {
    let mut rest = VecDeque::from(traffic);
    std::iter::from_fn(move || {
        let (mut batch, mut keys) = (Vec::new(), 0);
        while batch.len() < limits::TRAFFIC_BATCH_HOURS && keys < limits::TRAFFIC_BATCH_KEYS {
            let Some(mut part) = rest.pop_front() else { break };
            rest.extend(split_keys(&mut part, limits::TRAFFIC_BATCH_KEYS - keys));
            keys += part.entries.len() + part.visitors.len();
            batch.push(part);
        }
        (!batch.is_empty()).then_some(batch)
    })
}

/// Splits off the keys beyond `most`. The sums stay with the first ones.
fn split_keys(part: &mut HourTraffic, most: usize) -> Option<HourTraffic> {
    let entries = part.entries.split_off(most.min(part.entries.len()));
    let most = most - part.entries.len();
    let visitors = part.visitors.split_off(most.min(part.visitors.len()));
    let (hour, project) = (part.hour, part.project.clone());
    let is_whole = entries.is_empty() && visitors.is_empty();
    (!is_whole).then_some(HourTraffic { hour, project, sums: TrafficSums::default(), entries, visitors })
}
