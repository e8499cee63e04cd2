//! The sums of one project, and what they are made of: bounded, with the rest in one place.

use std::collections::HashMap;

use domain::traffic::{Count, Entry, EntryKind, HourTraffic, OTHER, Sums};

use super::{Answer, Country};
use crate::{http::CacheUse, limits};

/// Bytes that a key takes beside its text, about.
const ENTRY_WEIGHT: usize = 96;
/// Bytes that a project takes beside its keys, about.
const ENTRY_WEIGHT_OF_PROJECT: usize = 768;

/// Bytes that may still be taken.
pub(super) struct Room {
    /// By projects and keys.
    all: usize,
    /// By keys.
    keys: usize,
    /// By the keys of one project.
    project_keys: usize,
}

/// Traffic of one project.
#[derive(Default)]
pub(super) struct Tally {
    sums: Sums,
    hostnames: Keys,
    paths: Keys,
    missing_paths: Keys,
    countries: Vec<(Country, Count)>,
    /// Bytes of its keys.
    weight: usize,
}

/// Counts by key.
#[derive(Default)]
struct Keys {
    counts: HashMap<Box<str>, Count>,
    /// Of the keys that found no room.
    other: Count,
}

impl Room {
    /// So many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        let percent = |part| bytes / 100 * part;
        let (keys, project_keys) = (limits::KEYS_PERCENT_OF_TRAFFIC, limits::PROJECT_KEYS_PERCENT);
        Self { all: bytes, keys: percent(keys), project_keys: percent(project_keys) }
    }

    /// Takes what a project needs before its first key.
    pub(super) fn take_for_project(&mut self) -> bool {
        let is_there = self.all >= ENTRY_WEIGHT_OF_PROJECT;
        if is_there {
            self.all -= ENTRY_WEIGHT_OF_PROJECT;
        }
        is_there
    }

    /// Gives back what a project took, with keys of `weight`.
    pub(super) fn give_back(&mut self, weight: usize) {
        self.all += ENTRY_WEIGHT_OF_PROJECT + weight;
        self.keys += weight;
    }

    fn take_for_key(&mut self, key: &str, taken: &mut usize) -> bool {
        let weight = key.len() + ENTRY_WEIGHT;
        let is_there = self.keys >= weight && self.all >= weight && *taken + weight <= self.project_keys;
        if is_there {
            self.keys -= weight;
            self.all -= weight;
            *taken += weight;
        }
        is_there
    }
}

impl Keys {
    /// Adds to a key, or to the others where there is no room for one more.
    fn add(&mut self, key: &str, count: Count, most: usize, taken: &mut usize, room: &mut Room) {
        if let Some(known) = self.counts.get_mut(key) {
            known.add(count);
        } else if self.counts.len() < most && room.take_for_key(key, taken) {
            self.counts.insert(key.into(), count);
        } else {
            self.other.add(count);
        }
    }

    fn merge(&mut self, more: Self, most: usize, taken: &mut usize, room: &mut Room) {
        for (key, count) in more.counts {
            self.add(&key, count, most, taken, room);
        }
        self.other.add(more.other);
    }

    fn into_entries(self, kind: EntryKind) -> impl Iterator<Item = Entry> {
        let other = (self.other != Count::default()).then(|| (OTHER.into(), self.other));
        self.counts.into_iter().chain(other).map(move |(key, count)| Entry { kind, key, count })
    }
}

impl Tally {
    /// Counts an answer, or more bytes of one when `count` has no request.
    pub(super) fn add(&mut self, answer: &Answer, count: Count, room: &mut Room) {
        let Count { requests, bytes } = count;
        self.sums.requests += requests;
        self.sums.bytes += bytes;
        self.sums.statuses[Sums::class(answer.status.as_u16())] += requests;
        match answer.cache {
            CacheUse::Hit => self.sums.cache_hits += requests,
            CacheUse::Miss => self.sums.cache_misses += requests,
            CacheUse::None => {}
        }
        let taken = &mut self.weight;
        self.hostnames.add(&answer.host, count, limits::COUNTED_HOSTNAMES, taken, room);
        let (paths, missing_paths) = (limits::COUNTED_PATHS, limits::COUNTED_MISSING_PATHS);
        match answer.path_kind() {
            Some(EntryKind::Path) => self.paths.add(&answer.path(), count, paths, taken, room),
            Some(EntryKind::MissingPath) => self.missing_paths.add(&answer.path(), count, missing_paths, taken, room),
            _ => {}
        }
        self.add_country(answer.country, count);
    }

    /// Two letters are few enough to need no bound.
    fn add_country(&mut self, country: Country, count: Count) {
        if let Some((_, known)) = self.countries.iter_mut().find(|(known, _)| *known == country) {
            known.add(count);
        } else {
            self.countries.push((country, count));
        }
    }

    /// Adds the traffic of another tally.
    pub(super) fn merge(&mut self, more: Self, room: &mut Room) {
        self.sums.add(&more.sums);
        let taken = &mut self.weight;
        self.hostnames.merge(more.hostnames, limits::COUNTED_HOSTNAMES, taken, room);
        self.paths.merge(more.paths, limits::COUNTED_PATHS, taken, room);
        self.missing_paths.merge(more.missing_paths, limits::COUNTED_MISSING_PATHS, taken, room);
        for (country, count) in more.countries {
            self.add_country(country, count);
        }
    }

    /// The number of answers.
    pub(super) fn requests(&self) -> u64 {
        self.sums.requests
    }

    /// The bytes of its keys.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Answers whose path or hostname found no room.
    pub(super) fn others(&self) -> u64 {
        self.hostnames.other.requests + self.paths.other.requests + self.missing_paths.other.requests
    }

    /// Makes rows of it.
    pub(super) fn into_traffic(self, hour: domain::Timestamp, project: domain::ProjectId) -> HourTraffic {
        let Self { sums, hostnames, paths, missing_paths, countries, weight: _ } = self;
        let countries = countries.into_iter().map(|(country, count)| Entry {
            kind: EntryKind::Country,
            key: country.as_str().into(),
            count,
        });
        let entries = hostnames
            .into_entries(EntryKind::Hostname)
            .chain(paths.into_entries(EntryKind::Path))
            .chain(missing_paths.into_entries(EntryKind::MissingPath))
            .chain(countries)
            .collect();
        HourTraffic { hour, project, sums, entries }
    }
}
