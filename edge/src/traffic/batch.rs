//! Batches: traffic as it goes to Postgres.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry as Place};

use domain::{
    ProjectId, Timestamp,
    traffic::{Entry, EntryKind, HourTraffic, OTHER, Sums},
};

use super::{Counts, hour_keys::HourKeys};
use crate::limits;

/// Bytes that a project's part of a batch takes in memory beside its keys, about.
const ENTRY_WEIGHT_OF_PART: usize = 256;
/// Bytes that a key takes in memory beside its text, about.
const ENTRY_WEIGHT: usize = 48;

/// A part of what an edge has collected: at most as much as Postgres takes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    /// Its number among the batches of its edge. It is kept until Postgres has confirmed it, which may have had it before.
    pub(super) number: i64,
    /// Traffic by project, all of one hour.
    pub(super) traffic: Vec<HourTraffic>,
}

/// What was counted until a collection.
#[derive(Debug)]
pub(super) struct Collection {
    /// Traffic by project.
    pub(super) traffic: Vec<HourTraffic>,
    /// Answers that are not counted at all: there was no room for their project.
    pub(super) dropped: u64,
    /// Answers whose path or hostname is `(other)`.
    pub(super) others: u64,
}

impl Batch {
    /// The number of answers.
    pub(super) fn answers(&self) -> u64 {
        self.traffic.iter().map(|part| part.sums.requests).sum()
    }

    /// The beginning of its hour.
    pub(super) fn hour(&self) -> Option<Timestamp> {
        self.traffic.first().map(|part| part.hour)
    }

    /// Whether it is too old to be sent: Postgres might not know any more that it has had it.
    pub(super) fn is_too_old(&self, now: Timestamp) -> bool {
        self.hour().is_none_or(|hour| hour < now - limits::TRAFFIC_SENT_WITHIN)
    }

    /// Takes out the traffic of a site that was sent ahead with all batches up to `last`.
    pub(super) fn take_out(&mut self, project: &ProjectId, last: i64) {
        if self.number <= last {
            self.traffic.retain(|part| part.project != *project);
        }
    }

    /// The bytes that it takes in memory, about.
    pub(super) fn weight(&self) -> usize {
        self.traffic.iter().map(weight).sum()
    }
}

fn weight(part: &HourTraffic) -> usize {
    let keys: usize = part.entries.iter().map(|entry| entry.key.len() + ENTRY_WEIGHT).sum();
    ENTRY_WEIGHT_OF_PART + keys + size_of_val(part.visitors.as_slice())
}

impl Collection {
    /// What all threads have counted, within `hour`: as many keys of it as `keys` has room for.
    pub(super) fn of(counts: impl IntoIterator<Item = Counts>, hour: Timestamp, keys: &mut HourKeys) -> Self {
        keys.begin(hour);
        let (mut dropped, mut parts) = (0, Vec::new());
        for Counts { projects, room, dropped: of_thread, .. } in counts {
            dropped += of_thread;
            parts.extend(projects.into_iter().map(|(project, mut tally)| {
                if let Some(payer) = room.payer_of(&tally) {
                    keys.bound(payer, &project, &mut tally);
                }
                tally.into_traffic(hour, project)
            }));
        }
        let traffic = merge(parts);
        let is_lacking = |entry: &&Entry| {
            matches!(entry.kind, EntryKind::Hostname | EntryKind::Path | EntryKind::Error) && *entry.key == *OTHER
        };
        let lacking = traffic.iter().flat_map(|part| &part.entries).filter(is_lacking);
        let others = lacking.map(|entry| entry.count.requests).sum();
        Self { traffic, dropped, others }
    }
}

/// Makes one part of each project, and in it one entry of each key: several threads count the same.
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

/// Divides what was collected into what one batch takes each.
pub(super) fn divide(traffic: Vec<HourTraffic>) -> impl Iterator<Item = Vec<HourTraffic>> {
    let mut rest = VecDeque::from(traffic);
    std::iter::from_fn(move || {
        let (mut batch, mut keys) = (Vec::new(), 0);
        while batch.len() < limits::TRAFFIC_BATCH_HOURS && keys < limits::TRAFFIC_BATCH_KEYS {
            let Some(mut part) = rest.pop_front() else { break };
            rest.extend(cut(&mut part, limits::TRAFFIC_BATCH_KEYS - keys));
            keys += part.entries.len() + part.visitors.len();
            batch.push(part);
        }
        (!batch.is_empty()).then_some(batch)
    })
}

/// Takes the keys beyond `most` out of a part. The sums stay with the first ones.
fn cut(part: &mut HourTraffic, most: usize) -> Option<HourTraffic> {
    let entries = part.entries.split_off(most.min(part.entries.len()));
    let most = most - part.entries.len();
    let visitors = part.visitors.split_off(most.min(part.visitors.len()));
    let (hour, project) = (part.hour, part.project.clone());
    let is_whole = entries.is_empty() && visitors.is_empty();
    (!is_whole).then_some(HourTraffic { hour, project, sums: Sums::default(), entries, visitors })
}
