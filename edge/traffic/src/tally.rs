//! The sums of one project and their breakdown by keys, which is bounded; the rest is counted as `(other)`.

use ahash::HashMap;
use domain::{
    Account, PayingAccount,
    traffic::{
        AgentKey, HourTraffic, OTHER, TrafficCount, TrafficEntry, TrafficEntryKind, TrafficSums, sketch::SketchRegister,
    },
};
use http_types::CacheUse;

use super::{
    CountedResponse, Country,
    people::{ClientKind, PendingVisitor},
};

const ENTRY_WEIGHT: usize = 96;
const ENTRY_WEIGHT_OF_PROJECT: usize = 1_024;

/// The memory that may still be used, in bytes.
pub(super) struct TallyRoom {
    all: usize,
    keys: usize,
    payer_keys: usize,
    /// The use of each payer, with its index: a person counts together with all their organizations.
    payers: Vec<PayerUsage>,
    places: HashMap<Account, usize>,
}

struct PayerUsage {
    payer: Account,
    key_bytes: usize,
    projects: usize,
}

/// The index of a project's payer in [`TallyRoom`].
#[derive(Clone, Copy, Default)]
pub(super) struct PayerIndex(usize);

/// The traffic of one project.
#[derive(Default)]
pub(super) struct ProjectTally {
    sums: TrafficSums,
    hostnames: KeyCounts,
    paths: KeyCounts,
    /// Paths that name no file: one page or rule answers them all.
    stand_ins: KeyCounts,
    errors: KeyCounts,
    views: KeyCounts,
    countries: Vec<(Country, TrafficCount)>,
    clients: Vec<ClientCount>,
    visitors: Vec<SketchRegister>,
    payer: PayerIndex,
}

/// A list whose keys visitors can make up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum KeyList {
    Paths,
    StandIns,
    Errors,
    Views,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PerList<T> {
    pub(super) paths: T,
    pub(super) stand_ins: T,
    pub(super) errors: T,
    pub(super) views: T,
}

impl<T> PerList<T> {
    pub(super) fn get(&self, list: KeyList) -> &T {
        match list {
            KeyList::Paths => &self.paths,
            KeyList::StandIns => &self.stand_ins,
            KeyList::Errors => &self.errors,
            KeyList::Views => &self.views,
        }
    }

    pub(super) fn get_mut(&mut self, list: KeyList) -> &mut T {
        match list {
            KeyList::Paths => &mut self.paths,
            KeyList::StandIns => &mut self.stand_ins,
            KeyList::Errors => &mut self.errors,
            KeyList::Views => &mut self.views,
        }
    }
}

struct ClientCount {
    kind: ClientKind,
    count: TrafficCount,
    pages: TrafficCount,
    disallowed: TrafficCount,
}

/// The breakdown of a response by its client.
pub(super) struct ClientBreakdown<'a> {
    pub(super) kind: ClientKind,
    pub(super) page: Option<&'a str>,
    pub(super) is_disallowed: bool,
}

#[derive(Default)]
struct KeyCounts {
    counts: HashMap<Box<str>, TrafficCount>,
    other: TrafficCount,
}

impl TallyRoom {
    /// Creates room for `keys` bytes of keys, and for the sums of [`limits::COUNTED_PROJECTS`] projects.
    pub(super) fn new(keys: usize) -> Self {
        let all = keys + limits::COUNTED_PROJECTS * ENTRY_WEIGHT_OF_PROJECT;
        let (payers, places) = Default::default();
        Self { all, keys, payer_keys: keys / 100 * limits::PAYER_KEYS_PERCENT, payers, places }
    }

    /// Reserves the memory that a project of `owner` needs before its first key, or returns `None` if there is no room.
    pub(super) fn reserve_project(&mut self, owner: &PayingAccount) -> Option<ProjectTally> {
        let payer = owner.person().cloned().map_or_else(|| owner.account().clone(), Account::User);
        let place = *self.places.entry(payer).or_insert_with_key(|payer| {
            self.payers.push(PayerUsage { payer: payer.clone(), key_bytes: 0, projects: 0 });
            self.payers.len() - 1
        });
        let taken = self.payers.get_mut(place).filter(|taken| taken.projects < limits::PAYER_PROJECTS)?;
        self.all = self.all.checked_sub(ENTRY_WEIGHT_OF_PROJECT)?;
        taken.projects += 1;
        Some(ProjectTally { payer: PayerIndex(place), ..ProjectTally::default() })
    }

    /// Returns the account that pays for the keys of `tally`, which must belong to this room.
    pub(super) fn find_payer(&self, tally: &ProjectTally) -> Option<&Account> {
        self.payers.get(tally.payer.0).map(|taken| &taken.payer)
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        let is_there = self.keys >= bytes && self.all >= bytes;
        if is_there {
            self.keys -= bytes;
            self.all -= bytes;
        }
        is_there
    }

    fn reserve_key(&mut self, key: &str, payer: PayerIndex) -> bool {
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

impl KeyCounts {
    /// Adds to a key, or to the others if there is no room for another key.
    fn add(&mut self, key: &str, count: TrafficCount, most: usize, payer: PayerIndex, room: &mut TallyRoom) {
        if let Some(known) = self.counts.get_mut(key) {
            known.add(count);
        } else if self.counts.len() < most && room.reserve_key(key, payer) {
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

    fn into_entries(self, kind: TrafficEntryKind) -> impl Iterator<Item = TrafficEntry> {
        let other = (self.other != TrafficCount::default()).then(|| (OTHER.into(), self.other));
        self.counts.into_iter().chain(other).map(move |(key, count)| TrafficEntry { kind, key, count })
    }
}

impl ProjectTally {
    /// Counts a response, or more bytes of one if `count` has no request.
    pub(super) fn add(&mut self, answer: &CountedResponse, count: TrafficCount, room: &mut TallyRoom) {
        let TrafficCount { requests, bytes } = count;
        self.sums.requests += requests;
        self.sums.bytes += bytes;
        self.sums.statuses[TrafficSums::class(answer.status.as_u16())] += requests;
        match answer.cache {
            CacheUse::Hit => self.sums.cache_hits += requests,
            CacheUse::Miss => self.sums.cache_misses += requests,
            CacheUse::None => {}
        }
        let payer = self.payer;
        self.hostnames.add(&answer.host, count, limits::COUNTED_HOSTNAMES, payer, room);
        match answer.path_kind() {
            Some(TrafficEntryKind::Path) if answer.is_own_file => {
                self.paths.add(&answer.path(), count, limits::COUNTED_PATHS, payer, room);
            }
            Some(TrafficEntryKind::Path) => {
                self.stand_ins.add(&answer.path(), count, limits::COUNTED_STAND_INS, payer, room);
            }
            Some(TrafficEntryKind::Error) => {
                self.errors.add(&answer.error_key(), count, limits::COUNTED_ERRORS, payer, room);
            }
            _ => {}
        }
        self.add_country(answer.country, count);
    }

    pub(super) fn add_client(&mut self, asked: &ClientBreakdown<'_>, count: TrafficCount, room: &mut TallyRoom) {
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
    pub(super) fn add_settled(&mut self, kind: ClientKind, settled: &PendingVisitor, room: &mut TallyRoom) {
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

    pub(super) fn add_visitor(&mut self, register: SketchRegister, room: &mut TallyRoom) {
        if self.visitors.len() >= limits::COUNTED_REGISTERS {
            self.visitors.sort_unstable();
            // Reversed, so that the highest rank of each index is kept.
            self.visitors.reverse();
            self.visitors.dedup_by_key(|register| register.index());
        }
        if self.visitors.len() < limits::COUNTED_REGISTERS && room.reserve(size_of::<SketchRegister>()) {
            self.visitors.push(register);
        }
    }

    fn add_view(&mut self, key: &str, count: TrafficCount, room: &mut TallyRoom) {
        self.sums.pageviews += count.requests;
        self.views.add(key, count, limits::COUNTED_VIEWS, self.payer, room);
    }

    /// Returns the counts of a kind of clients. There are few, because the table of agents is short.
    fn client(&mut self, kind: ClientKind) -> &mut ClientCount {
        let known = self.clients.iter().position(|known| known.kind.is_same(kind));
        let place = known.unwrap_or_else(|| {
            let none = TrafficCount::default();
            self.clients.push(ClientCount { kind, count: none, pages: none, disallowed: none });
            self.clients.len() - 1
        });
        &mut self.clients[place]
    }

    /// Two letters give few enough keys to need no bound.
    fn add_country(&mut self, country: Country, count: TrafficCount) {
        if let Some((_, known)) = self.countries.iter_mut().find(|(known, _)| *known == country) {
            known.add(count);
        } else {
            self.countries.push((country, count));
        }
    }

    /// Retains the admitted keys of the lists whose keys visitors can make up; the others are counted together.
    pub(super) fn retain_keys(&mut self, mut admits: impl FnMut(KeyList, &str) -> bool) {
        self.paths.retain(|key| admits(KeyList::Paths, key));
        self.stand_ins.retain(|key| admits(KeyList::StandIns, key));
        self.errors.retain(|key| admits(KeyList::Errors, key));
        self.views.retain(|key| admits(KeyList::Views, key));
    }

    pub(super) fn visitors_mut(&mut self) -> &mut Vec<SketchRegister> {
        &mut self.visitors
    }

    pub(super) fn into_traffic(self, hour: domain::Timestamp, project: domain::ProjectId) -> HourTraffic {
        let Self { sums, hostnames, mut paths, mut stand_ins, errors, views, countries, clients, visitors, payer: _ } =
            self;
        paths.other.add(std::mem::take(&mut stand_ins.other));
        let countries = countries.into_iter().map(|(country, count)| TrafficEntry {
            kind: TrafficEntryKind::Country,
            key: country.as_str().into(),
            count,
        });
        let mut entries: Vec<TrafficEntry> = hostnames
            .into_entries(TrafficEntryKind::Hostname)
            .chain(paths.into_entries(TrafficEntryKind::Path))
            .chain(stand_ins.into_entries(TrafficEntryKind::Path))
            .chain(errors.into_entries(TrafficEntryKind::Error))
            .chain(views.into_entries(TrafficEntryKind::View))
            .chain(countries)
            .chain(clients.iter().map(ClientCount::entry))
            .collect();
        for client in &clients {
            client.add_by_name(TrafficEntryKind::AgentPage, client.pages, &mut entries);
            client.add_by_name(TrafficEntryKind::AgentDisallowed, client.disallowed, &mut entries);
        }
        HourTraffic { hour, project, sums, entries, visitors }
    }
}

impl ClientCount {
    fn name(&self) -> &'static str {
        self.kind.agent.map_or("", |agent| agent.name)
    }

    fn entry(&self) -> TrafficEntry {
        let ClientKind { class, evidence, .. } = self.kind;
        let key = AgentKey { class, agent: self.name(), evidence }.encode().into();
        TrafficEntry { kind: TrafficEntryKind::Agent, key, count: self.count }
    }

    fn add_by_name(&self, kind: TrafficEntryKind, count: TrafficCount, entries: &mut Vec<TrafficEntry>) {
        if count == TrafficCount::default() {
            return;
        }
        match entries.iter_mut().rev().find(|entry| entry.kind == kind && *entry.key == *self.name()) {
            Some(known) => known.count.add(count),
            None => entries.push(TrafficEntry { kind, key: self.name().into(), count }),
        }
    }
}
