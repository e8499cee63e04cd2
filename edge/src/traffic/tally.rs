//! The sums of one project and their breakdown by keys, which is bounded; the rest is counted as `(other)`.

use ahash::HashMap;
use domain::{
    Account, PayingAccount,
    traffic::{AgentKey, Count, Entry, EntryKind, HourTraffic, OTHER, Sums, sketch::Register},
};

use super::{
    Answer, Country,
    people::{ClientKind, Waiting},
};
use crate::{http::CacheUse, limits};

const ENTRY_WEIGHT: usize = 96;
const ENTRY_WEIGHT_OF_PROJECT: usize = 1_024;

/// The memory that may still be used, in bytes.
pub(super) struct Room {
    all: usize,
    keys: usize,
    payer_keys: usize,
    /// The use of each payer, with its index: a person counts together with all their organizations.
    payers: Vec<Taken>,
    places: HashMap<Account, usize>,
}

struct Taken {
    payer: Account,
    key_bytes: usize,
    projects: usize,
}

/// The index of a project's payer in [`Room`].
#[derive(Clone, Copy, Default)]
pub(super) struct Place(usize);

/// The traffic of one project.
#[derive(Default)]
pub(super) struct Tally {
    sums: Sums,
    hostnames: Keys,
    paths: Keys,
    /// Paths that name no file: one page or rule answers them all.
    stand_ins: Keys,
    errors: Keys,
    views: Keys,
    countries: Vec<(Country, Count)>,
    clients: Vec<ClientCount>,
    visitors: Vec<Register>,
    payer: Place,
}

/// A list whose keys visitors can make up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum List {
    Paths,
    StandIns,
    Errors,
    Views,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lists<T> {
    pub(super) paths: T,
    pub(super) stand_ins: T,
    pub(super) errors: T,
    pub(super) views: T,
}

impl<T> Lists<T> {
    pub(super) fn of(&self, list: List) -> &T {
        match list {
            List::Paths => &self.paths,
            List::StandIns => &self.stand_ins,
            List::Errors => &self.errors,
            List::Views => &self.views,
        }
    }

    pub(super) fn of_mut(&mut self, list: List) -> &mut T {
        match list {
            List::Paths => &mut self.paths,
            List::StandIns => &mut self.stand_ins,
            List::Errors => &mut self.errors,
            List::Views => &mut self.views,
        }
    }
}

struct ClientCount {
    kind: ClientKind,
    count: Count,
    pages: Count,
    disallowed: Count,
}

/// The breakdown of a response by its client.
pub(super) struct Asked<'a> {
    pub(super) kind: ClientKind,
    pub(super) page: Option<&'a str>,
    pub(super) is_disallowed: bool,
}

#[derive(Default)]
struct Keys {
    counts: HashMap<Box<str>, Count>,
    other: Count,
}

impl Room {
    /// Creates room for `keys` bytes of keys, and for the sums of [`limits::COUNTED_PROJECTS`] projects.
    pub(super) fn of(keys: usize) -> Self {
        let all = keys + limits::COUNTED_PROJECTS * ENTRY_WEIGHT_OF_PROJECT;
        let (payers, places) = Default::default();
        Self { all, keys, payer_keys: keys / 100 * limits::PAYER_KEYS_PERCENT, payers, places }
    }

    /// Reserves the memory that a project of `owner` needs before its first key, or returns `None` if there is no room.
    pub(super) fn take_for_project(&mut self, owner: &PayingAccount) -> Option<Tally> {
        let payer = owner.person().cloned().map_or_else(|| owner.account().clone(), Account::User);
        let place = *self.places.entry(payer).or_insert_with_key(|payer| {
            self.payers.push(Taken { payer: payer.clone(), key_bytes: 0, projects: 0 });
            self.payers.len() - 1
        });
        let taken = self.payers.get_mut(place).filter(|taken| taken.projects < limits::PAYER_PROJECTS)?;
        self.all = self.all.checked_sub(ENTRY_WEIGHT_OF_PROJECT)?;
        taken.projects += 1;
        Some(Tally { payer: Place(place), ..Tally::default() })
    }

    /// Returns the account that pays for the keys of `tally`, which must belong to this room.
    pub(super) fn payer_of(&self, tally: &Tally) -> Option<&Account> {
        self.payers.get(tally.payer.0).map(|taken| &taken.payer)
    }

    fn take(&mut self, bytes: usize) -> bool {
        let is_there = self.keys >= bytes && self.all >= bytes;
        if is_there {
            self.keys -= bytes;
            self.all -= bytes;
        }
        is_there
    }

    fn take_for_key(&mut self, key: &str, payer: Place) -> bool {
        let weight = key.len() + ENTRY_WEIGHT;
        let Some(taken) = self.payers.get_mut(payer.0) else { return false };
        let is_there = self.keys >= weight && self.all >= weight && taken.key_bytes + weight <= self.payer_keys;
        if is_there {
            self.keys -= weight;
            self.all -= weight;
            taken.key_bytes += weight;
        }
        is_there
    }
}

impl Keys {
    /// Adds to a key, or to the others if there is no room for another key.
    fn add(&mut self, key: &str, count: Count, most: usize, payer: Place, room: &mut Room) {
        if let Some(known) = self.counts.get_mut(key) {
            known.add(count);
        } else if self.counts.len() < most && room.take_for_key(key, payer) {
            self.counts.insert(key.into(), count);
        } else {
            self.other.add(count);
        }
    }

    /// Retains the admitted keys; the others are counted together.
    fn retain(&mut self, mut admits: impl FnMut(&str) -> bool) {
        let Self { counts, other } = self;
        // Keys with a single response come last: they are the likeliest to be made up.
        for is_single in [false, true] {
            counts.retain(|key, count| {
                let stays = (count.requests <= 1) != is_single || admits(key);
                if !stays {
                    other.add(*count);
                }
                stays
            });
        }
    }

    fn into_entries(self, kind: EntryKind) -> impl Iterator<Item = Entry> {
        let other = (self.other != Count::default()).then(|| (OTHER.into(), self.other));
        self.counts.into_iter().chain(other).map(move |(key, count)| Entry { kind, key, count })
    }
}

impl Tally {
    /// Counts a response, or more bytes of one if `count` has no request.
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
        let payer = self.payer;
        self.hostnames.add(&answer.host, count, limits::COUNTED_HOSTNAMES, payer, room);
        match answer.path_kind() {
            Some(EntryKind::Path) if answer.is_own_file => {
                self.paths.add(&answer.path(), count, limits::COUNTED_PATHS, payer, room);
            }
            Some(EntryKind::Path) => {
                self.stand_ins.add(&answer.path(), count, limits::COUNTED_STAND_INS, payer, room);
            }
            Some(EntryKind::Error) => self.errors.add(&answer.error_key(), count, limits::COUNTED_ERRORS, payer, room),
            _ => {}
        }
        self.add_country(answer.country, count);
    }

    pub(super) fn add_client(&mut self, asked: &Asked<'_>, count: Count, room: &mut Room) {
        let client = self.client(asked.kind);
        client.count.add(count);
        if asked.is_disallowed {
            client.disallowed.add(count);
        }
        if asked.kind.is_person() {
            self.sums.people_bytes += count.bytes;
            if let Some(key) = asked.page {
                self.add_view(key, count, room);
            }
        } else if asked.page.is_some() {
            client.pages.add(count);
        }
    }

    /// Counts the pending actions of a visitor once it is classified.
    pub(super) fn add_settled(&mut self, kind: ClientKind, settled: &Waiting, room: &mut Room) {
        let client = self.client(kind);
        client.count.add(settled.count);
        if kind.is_person() {
            self.sums.people_bytes += settled.count.bytes;
            for (key, count) in &settled.pages {
                self.add_view(key, *count, room);
            }
            if let Some(register) = settled.register {
                self.add_visitor(register, room);
            }
        } else {
            for (_, count) in &settled.pages {
                client.pages.add(*count);
            }
        }
    }

    pub(super) fn add_visitor(&mut self, register: Register, room: &mut Room) {
        if self.visitors.len() >= limits::COUNTED_REGISTERS {
            self.visitors.sort_unstable();
            // Reversed, so that the highest rank of each index is kept.
            self.visitors.reverse();
            self.visitors.dedup_by_key(|register| register.index());
        }
        if self.visitors.len() < limits::COUNTED_REGISTERS && room.take(size_of::<Register>()) {
            self.visitors.push(register);
        }
    }

    fn add_view(&mut self, key: &str, count: Count, room: &mut Room) {
        self.sums.pageviews += count.requests;
        self.views.add(key, count, limits::COUNTED_VIEWS, self.payer, room);
    }

    /// Returns the counts of a kind of clients. There are few, because the table of agents is short.
    fn client(&mut self, kind: ClientKind) -> &mut ClientCount {
        let known = self.clients.iter().position(|known| known.kind.is_same(kind));
        let place = known.unwrap_or_else(|| {
            let none = Count::default();
            self.clients.push(ClientCount { kind, count: none, pages: none, disallowed: none });
            self.clients.len() - 1
        });
        &mut self.clients[place]
    }

    /// Two letters give few enough keys to need no bound.
    fn add_country(&mut self, country: Country, count: Count) {
        if let Some((_, known)) = self.countries.iter_mut().find(|(known, _)| *known == country) {
            known.add(count);
        } else {
            self.countries.push((country, count));
        }
    }

    /// Retains the admitted keys of the lists whose keys visitors can make up; the others are counted together.
    pub(super) fn retain_keys(&mut self, mut admits: impl FnMut(List, &str) -> bool) {
        self.paths.retain(|key| admits(List::Paths, key));
        self.stand_ins.retain(|key| admits(List::StandIns, key));
        self.errors.retain(|key| admits(List::Errors, key));
        self.views.retain(|key| admits(List::Views, key));
    }

    pub(super) fn visitors_mut(&mut self) -> &mut Vec<Register> {
        &mut self.visitors
    }

    pub(super) fn into_traffic(self, hour: domain::Timestamp, project: domain::ProjectId) -> HourTraffic {
        let Self { sums, hostnames, mut paths, mut stand_ins, errors, views, countries, clients, visitors, payer: _ } =
            self;
        paths.other.add(std::mem::take(&mut stand_ins.other));
        let countries = countries.into_iter().map(|(country, count)| Entry {
            kind: EntryKind::Country,
            key: country.as_str().into(),
            count,
        });
        let mut entries: Vec<Entry> = hostnames
            .into_entries(EntryKind::Hostname)
            .chain(paths.into_entries(EntryKind::Path))
            .chain(stand_ins.into_entries(EntryKind::Path))
            .chain(errors.into_entries(EntryKind::Error))
            .chain(views.into_entries(EntryKind::View))
            .chain(countries)
            .chain(clients.iter().map(ClientCount::entry))
            .collect();
        for client in &clients {
            client.add_by_name(EntryKind::AgentPage, client.pages, &mut entries);
            client.add_by_name(EntryKind::AgentDisallowed, client.disallowed, &mut entries);
        }
        HourTraffic { hour, project, sums, entries, visitors }
    }
}

impl ClientCount {
    fn name(&self) -> &'static str {
        self.kind.agent.map_or("", |agent| agent.name)
    }

    fn entry(&self) -> Entry {
        let ClientKind { class, evidence, .. } = self.kind;
        let key = AgentKey { class, agent: self.name(), evidence }.encode().into();
        Entry { kind: EntryKind::Agent, key, count: self.count }
    }

    fn add_by_name(&self, kind: EntryKind, count: Count, entries: &mut Vec<Entry>) {
        if count == Count::default() {
            return;
        }
        match entries.iter_mut().rev().find(|entry| entry.kind == kind && *entry.key == *self.name()) {
            Some(known) => known.count.add(count),
            None => entries.push(Entry { kind, key: self.name().into(), count }),
        }
    }
}
