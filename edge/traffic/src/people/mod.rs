//! Tells people from programs that pretend to be browsers, by their behavior.
//!
//! A page with parts waits until its visitor loads one of them, as a browser does; the visitor then counts as a person
//! for the rest of the day. A visitor that loads none in time counts as a program. [`client`] reads a request,
//! [`referrer`] its origin, [`salts`] holds the key under which visitors are hashed, and [`sent`] what Postgres already
//! knows of them. Everything is in memory only and cannot be traced back to a client. Start with [`VisitorTracker::judge`].

pub(super) mod client;
pub(super) mod referrer;
mod salts;
pub(super) mod sent;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use domain::{
    Site, Timestamp,
    traffic::{
        TrafficCount,
        agents::KnownAgent,
        sketch::SketchRegister,
        visitors::{ClassEvidence, VisitorClass},
    },
};

pub(super) use self::salts::DailySalts;

/// Approximate memory in bytes of a waiting visitor, without the keys of its pages.
const ENTRY_WEIGHT: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientKind {
    pub(super) class: VisitorClass,
    pub(super) agent: Option<&'static KnownAgent>,
    pub(super) evidence: ClassEvidence,
}

/// A visitor of a site within a day, by a keyed hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VisitorHash {
    hash: u64,
    /// Whether all edges hash with the same salt, so that visitors can be counted.
    is_shared: bool,
}

/// An action of a visitor that may be a browser.
pub(super) enum VisitorAction<'d> {
    Page {
        key: &'d str,
        /// Whether a browser would now load parts of the page.
        loads_parts: bool,
    },
    Part,
    Other,
}

/// The state of a visitor after an action.
pub(super) struct VisitorOutcome {
    /// Its classification; `None` while it is pending.
    pub(super) kind: Option<ClientKind>,
    /// The visitor's register, if this was its first page of the day.
    pub(super) register: Option<SketchRegister>,
    /// The actions that were pending and are now settled with the same classification.
    pub(super) settled: Option<PendingVisitor>,
}

/// The actions of a visitor that is not classified yet.
pub(super) struct PendingVisitor {
    pub(super) site: Arc<Site>,
    pub(super) count: TrafficCount,
    pub(super) pages: Vec<(Box<str>, TrafficCount)>,
    /// The visitor's register, unless it was counted before.
    pub(super) register: Option<SketchRegister>,
    since: Timestamp,
}

/// The visitors of this edge who may be people.
pub(super) struct VisitorTracker {
    stripes: Box<[VisitorStripe]>,
}

/// A part of the visitors, on its own cache lines.
#[repr(align(128))]
#[derive(Default)]
struct VisitorStripe(Mutex<StripeVisitors>);

#[derive(Default)]
struct StripeVisitors {
    /// Recent visitors, and those of the generation before: visitors not seen for long are forgotten.
    known: ByVisitor<VisitorState>,
    known_before: ByVisitor<VisitorState>,
    waiting: ByVisitor<PendingVisitor>,
    /// Waiting visitors, and some that no longer wait, oldest first.
    order: VecDeque<(Timestamp, u64)>,
    weight: usize,
}

type ByVisitor<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

/// Passes the key through: it is already a keyed hash.
#[derive(Default)]
struct IdentityHasher(u64);

#[derive(Clone, Copy, Default)]
struct VisitorState {
    verdict: Option<VisitorVerdict>,
    is_counted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitorVerdict {
    Person,
    Automation,
}

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl ClientKind {
    const PERSON: Self = Self { class: VisitorClass::Person, agent: None, evidence: ClassEvidence::Behaviour };
    /// A client that looks like a person's browser, without further evidence.
    pub(super) const LIKELY_PERSON: Self = Self { evidence: ClassEvidence::Fields, ..Self::PERSON };
    pub(super) const AUTOMATION: Self = Self { class: VisitorClass::Automation, ..Self::PERSON };

    pub(super) fn is_person(self) -> bool {
        self.class == VisitorClass::Person
    }

    /// Returns whether both are the same agent and class, for the same reason.
    pub(super) fn is_same(self, other: Self) -> bool {
        let is_same_agent = match (self.agent, other.agent) {
            // Several rows of the table may describe one agent.
            (Some(agent), Some(other)) => ptr::eq(agent, other) || agent.name == other.name,
            (None, None) => true,
            _ => false,
        };
        self.class == other.class && self.evidence == other.evidence && is_same_agent
    }
}

impl VisitorVerdict {
    fn kind(self) -> ClientKind {
        match self {
            Self::Person => ClientKind::PERSON,
            Self::Automation => ClientKind::AUTOMATION,
        }
    }
}

impl VisitorHash {
    /// Creates a visitor from a keyed hash; `is_shared` tells whether all edges share its salt.
    pub(super) fn new(hash: u64, is_shared: bool) -> Self {
        Self { hash, is_shared }
    }

    fn register(self) -> Option<SketchRegister> {
        self.is_shared.then(|| SketchRegister::from_hash(self.hash))
    }
}

impl PendingVisitor {
    fn weight(&self) -> usize {
        ENTRY_WEIGHT + self.pages.iter().map(|(key, _)| key.len()).sum::<usize>()
    }

    fn add_page(&mut self, key: &str, count: TrafficCount) {
        match self.pages.iter_mut().find(|(known, _)| **known == *key) {
            Some((_, known)) => known.add(count),
            None => self.pages.push((key.into(), count)),
        }
    }
}

impl StripeVisitors {
    fn known(&mut self, visitor: VisitorHash) -> VisitorState {
        if let Some(known) = self.known.get(&visitor.hash) {
            return *known;
        }
        let known = self.known_before.get(&visitor.hash).copied().unwrap_or_default();
        if known.verdict.is_some() || known.is_counted {
            self.remember(visitor, known);
        }
        known
    }

    fn remember(&mut self, visitor: VisitorHash, known: VisitorState) {
        if self.known.len() >= limits::KNOWN_VISITORS / limits::VISITOR_STRIPES
            && !self.known.contains_key(&visitor.hash)
        {
            self.known_before = std::mem::take(&mut self.known);
        }
        self.known.insert(visitor.hash, known);
    }

    /// Returns the visitor's register if it is not counted yet, and marks it as counted.
    fn count(&mut self, visitor: VisitorHash, known: VisitorState) -> Option<SketchRegister> {
        if known.is_counted {
            return None;
        }
        self.remember(visitor, VisitorState { is_counted: true, ..known });
        visitor.register()
    }

    fn settle(&mut self, hash: u64) -> Option<PendingVisitor> {
        let waiting = self.waiting.remove(&hash)?;
        self.weight -= waiting.weight();
        Some(waiting)
    }

    fn judge(
        &mut self,
        visitor: VisitorHash,
        deed: &VisitorAction<'_>,
        count: TrafficCount,
        at: &ActionContext<'_>,
    ) -> VisitorOutcome {
        let known = self.known(visitor);
        let settled = |kind, register, settled| VisitorOutcome { kind: Some(kind), register, settled };
        match (deed, known.verdict) {
            (VisitorAction::Part, verdict) => {
                let waited = self.settle(visitor.hash);
                let is_counted = known.is_counted || waited.is_some();
                if verdict != Some(VisitorVerdict::Person) || is_counted != known.is_counted {
                    self.remember(visitor, VisitorState { verdict: Some(VisitorVerdict::Person), is_counted });
                }
                settled(ClientKind::PERSON, None, waited)
            }
            (VisitorAction::Page { .. }, Some(VisitorVerdict::Person)) => {
                settled(ClientKind::PERSON, self.count(visitor, known), None)
            }
            (_, Some(verdict)) => settled(verdict.kind(), None, None),
            (VisitorAction::Page { key, loads_parts }, None) => {
                self.take_page(visitor, known, (key, *loads_parts), count, at)
            }
            (VisitorAction::Other, None) => {
                let Some(waiting) = self.waiting.get_mut(&visitor.hash) else {
                    return settled(ClientKind::LIKELY_PERSON, None, None);
                };
                waiting.count.add(count);
                VisitorOutcome { kind: None, register: None, settled: None }
            }
        }
    }

    fn take_page(
        &mut self,
        visitor: VisitorHash,
        known: VisitorState,
        (key, loads_parts): (&str, bool),
        count: TrafficCount,
        at: &ActionContext<'_>,
    ) -> VisitorOutcome {
        const WAITS: VisitorOutcome = VisitorOutcome { kind: None, register: None, settled: None };
        if let Some(waiting) = self.waiting.get_mut(&visitor.hash)
            && (loads_parts || count.requests == 0)
        {
            if waiting.pages.len() >= limits::WAITING_PAGES && count.requests > 0 {
                // A browser does not show this many pages without loading a part of any.
                self.remember(visitor, VisitorState { verdict: Some(VisitorVerdict::Automation), ..known });
                let settled = self.settle(visitor.hash);
                return VisitorOutcome { kind: Some(ClientKind::AUTOMATION), register: None, settled };
            }
            let before = waiting.weight();
            waiting.count.add(count);
            waiting.add_page(key, count);
            self.weight += waiting.weight() - before;
            return WAITS;
        }
        let (most_bytes, most) =
            (limits::WAITING_BYTES / limits::VISITOR_STRIPES, limits::WAITING_VISITORS / limits::VISITOR_STRIPES);
        let has_room = self.order.len() < most && self.weight + ENTRY_WEIGHT + key.len() <= most_bytes;
        if count.requests == 0 || !loads_parts || !has_room {
            let register = if count.requests > 0 { self.count(visitor, known) } else { None };
            return VisitorOutcome { kind: Some(ClientKind::LIKELY_PERSON), register, settled: None };
        }
        let since = (at.now)();
        let register = if known.is_counted { None } else { visitor.register() };
        let waiting =
            PendingVisitor { site: at.site.clone(), count, pages: vec![(key.into(), count)], register, since };
        self.weight += waiting.weight();
        self.order.push_back((since, visitor.hash));
        self.waiting.insert(visitor.hash, waiting);
        WAITS
    }

    /// Takes out the visitors whose time is up at `now`, or all of them if `is_end`.
    fn take_overdue(&mut self, now: Timestamp, is_end: bool, found: &mut Vec<(ClientKind, PendingVisitor)>) {
        while let Some(&(since, hash)) = self.order.front() {
            let is_overdue = now.since(since) >= limits::PARTS_WITHIN;
            if !is_overdue && !is_end {
                return;
            }
            self.order.pop_front();
            if self.waiting.get(&hash).is_none_or(|waiting| waiting.since != since) {
                continue;
            }
            let Some(waiting) = self.settle(hash) else { continue };
            if is_overdue {
                let visitor = VisitorHash::new(hash, false);
                let known = self.known(visitor);
                self.remember(visitor, VisitorState { verdict: Some(VisitorVerdict::Automation), ..known });
                found.push((ClientKind::AUTOMATION, waiting));
            } else {
                found.push((ClientKind::LIKELY_PERSON, waiting));
            }
        }
    }
}

pub(super) struct ActionContext<'a> {
    pub(super) site: &'a Arc<Site>,
    /// Reads the clock; most actions do not need it.
    pub(super) now: &'a dyn Fn() -> Timestamp,
}

impl VisitorTracker {
    pub(super) fn new() -> Self {
        Self { stripes: (0..limits::VISITOR_STRIPES).map(|_| VisitorStripe::default()).collect() }
    }

    /// Classifies a visitor by this action and earlier ones. `count` has no request if it adds bytes to an earlier one.
    pub(super) fn judge(
        &self,
        visitor: VisitorHash,
        deed: &VisitorAction<'_>,
        count: TrafficCount,
        at: &ActionContext<'_>,
    ) -> VisitorOutcome {
        self.stripe(visitor.hash).judge(visitor, deed, count, at)
    }

    /// Takes out the visitors whose time is up, or all if `is_end`. A visitor that loaded no part in time is a program.
    pub(super) fn settle(&self, now: Timestamp, is_end: bool) -> Vec<(ClientKind, PendingVisitor)> {
        let mut found = Vec::new();
        for stripe in &self.stripes {
            lock(stripe).take_overdue(now, is_end, &mut found);
        }
        found
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, StripeVisitors> {
        // Uses other bits than the maps do for their buckets.
        lock(&self.stripes[(hash >> 32) as usize % self.stripes.len()])
    }
}

fn lock(stripe: &VisitorStripe) -> MutexGuard<'_, StripeVisitors> {
    stripe.0.lock().unwrap_or_else(PoisonError::into_inner)
}
