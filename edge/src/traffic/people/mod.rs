//! People and what pretends to be them: a client that may be a browser is judged by what it does.
//!
//! A page with parts of its own waits until its visitor loads one of them, as a browser does; then the visitor is a person for
//! the rest of the day. Whoever loads none in time is a program. [`client`] reads what stands in a request, [`referrer`] where it
//! came from, [`salts`] keeps the key under which visitors are hashed, [`sent`] what Postgres knows of them already. All of it is
//! in memory only, and nothing of it leads back to a client. Start with [`People::judge`].

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
        Count,
        agents::Agent,
        sketch::Register,
        visitors::{Evidence, VisitorClass},
    },
};

pub(super) use self::salts::Salts;
use crate::limits;

/// Bytes that a visitor who waits takes beside the keys of its pages, about.
const ENTRY_WEIGHT: usize = 256;

/// A client, as far as it is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientKind {
    /// Its class.
    pub(super) class: VisitorClass,
    /// Its row in the table of agents, when it names itself.
    pub(super) agent: Option<&'static Agent>,
    /// The reason for the class.
    pub(super) evidence: Evidence,
}

/// A visitor of a site within a day, by a keyed hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visitor {
    hash: u64,
    /// Whether all edges hash with the same salt, so that visitors can be counted.
    is_shared: bool,
}

/// What a visitor that may be a browser did.
pub(super) enum Deed<'d> {
    /// It took a page.
    Page {
        /// The key of the view.
        key: &'d str,
        /// Whether a browser would now load parts of the page.
        loads_parts: bool,
    },
    /// It took a part of a page of the same site.
    Part,
    /// Anything else.
    Other,
}

/// What is known of a visitor after a deed.
pub(super) struct Outcome {
    /// What it is; none while it waits.
    pub(super) kind: Option<ClientKind>,
    /// The visitor, when this was its first page of the day.
    pub(super) register: Option<Register>,
    /// What had waited, and is of the same kind.
    pub(super) settled: Option<Waiting>,
}

/// What a visitor did until it is known what it is.
pub(super) struct Waiting {
    /// The site.
    pub(super) site: Arc<Site>,
    /// All answers.
    pub(super) count: Count,
    /// Pages among them, by the keys of their views.
    pub(super) pages: Vec<(Box<str>, Count)>,
    /// The visitor, unless it was counted before.
    pub(super) register: Option<Register>,
    since: Timestamp,
}

/// Visitors of this edge who may be people.
pub(super) struct People {
    stripes: Box<[Stripe]>,
}

/// A part of the visitors, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Stripe(Mutex<Visitors>);

#[derive(Default)]
struct Visitors {
    /// Those met lately, and those before them: of whom nobody heard for long is forgotten.
    known: ByVisitor<Known>,
    known_before: ByVisitor<Known>,
    waiting: ByVisitor<Waiting>,
    /// Those who wait, and some who waited, the first to be judged first.
    order: VecDeque<(Timestamp, u64)>,
    /// Bytes of those who wait.
    weight: usize,
}

type ByVisitor<V> = HashMap<u64, V, BuildHasherDefault<AsItIs>>;

/// The key is a keyed hash already.
#[derive(Default)]
struct AsItIs(u64);

#[derive(Clone, Copy, Default)]
struct Known {
    verdict: Option<Verdict>,
    /// Whether it is among the day's visitors.
    is_counted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Person,
    Automation,
}

impl Hasher for AsItIs {
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
    /// A person by what it did.
    const PERSON: Self = Self { class: VisitorClass::Person, agent: None, evidence: Evidence::Behaviour };
    /// A client that looks like a person's, and of which no more is known.
    pub(super) const LIKELY_PERSON: Self = Self { evidence: Evidence::Fields, ..Self::PERSON };
    /// A program by what it did.
    pub(super) const AUTOMATION: Self = Self { class: VisitorClass::Automation, ..Self::PERSON };

    /// Whether it is a person.
    pub(super) fn is_person(self) -> bool {
        self.class == VisitorClass::Person
    }

    /// Whether both are of the same agent and class, for the same reason.
    pub(super) fn is_same(self, other: Self) -> bool {
        let is_same_agent = match (self.agent, other.agent) {
            // Several rows of the table may be one agent.
            (Some(agent), Some(other)) => ptr::eq(agent, other) || agent.name == other.name,
            (None, None) => true,
            _ => false,
        };
        self.class == other.class && self.evidence == other.evidence && is_same_agent
    }
}

impl Verdict {
    fn kind(self) -> ClientKind {
        match self {
            Self::Person => ClientKind::PERSON,
            Self::Automation => ClientKind::AUTOMATION,
        }
    }
}

impl Visitor {
    /// A visitor with this keyed hash, whose salt all edges share or not.
    pub(super) fn new(hash: u64, is_shared: bool) -> Self {
        Self { hash, is_shared }
    }

    fn register(self) -> Option<Register> {
        self.is_shared.then(|| Register::of(self.hash))
    }
}

impl Waiting {
    fn weight(&self) -> usize {
        ENTRY_WEIGHT + self.pages.iter().map(|(key, _)| key.len()).sum::<usize>()
    }

    fn add_page(&mut self, key: &str, count: Count) {
        match self.pages.iter_mut().find(|(known, _)| **known == *key) {
            Some((_, known)) => known.add(count),
            None => self.pages.push((key.into(), count)),
        }
    }
}

impl Visitors {
    fn known(&mut self, visitor: Visitor) -> Known {
        if let Some(known) = self.known.get(&visitor.hash) {
            return *known;
        }
        let known = self.known_before.get(&visitor.hash).copied().unwrap_or_default();
        if known.verdict.is_some() || known.is_counted {
            self.remember(visitor, known);
        }
        known
    }

    fn remember(&mut self, visitor: Visitor, known: Known) {
        if self.known.len() >= limits::KNOWN_VISITORS / limits::VISITOR_STRIPES
            && !self.known.contains_key(&visitor.hash)
        {
            self.known_before = std::mem::take(&mut self.known);
        }
        self.known.insert(visitor.hash, known);
    }

    /// The visitor's register, unless it was counted before. It is from now on.
    fn count(&mut self, visitor: Visitor, known: Known) -> Option<Register> {
        if known.is_counted {
            return None;
        }
        self.remember(visitor, Known { is_counted: true, ..known });
        visitor.register()
    }

    fn settle(&mut self, hash: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&hash)?;
        self.weight -= waiting.weight();
        Some(waiting)
    }

    fn judge(&mut self, visitor: Visitor, deed: &Deed<'_>, count: Count, at: &At<'_>) -> Outcome {
        let known = self.known(visitor);
        let settled = |kind, register, settled| Outcome { kind: Some(kind), register, settled };
        match (deed, known.verdict) {
            (Deed::Part, verdict) => {
                let waited = self.settle(visitor.hash);
                let is_counted = known.is_counted || waited.is_some();
                if verdict != Some(Verdict::Person) || is_counted != known.is_counted {
                    self.remember(visitor, Known { verdict: Some(Verdict::Person), is_counted });
                }
                settled(ClientKind::PERSON, None, waited)
            }
            (Deed::Page { .. }, Some(Verdict::Person)) => settled(ClientKind::PERSON, self.count(visitor, known), None),
            (_, Some(verdict)) => settled(verdict.kind(), None, None),
            (Deed::Page { key, loads_parts }, None) => self.take_page(visitor, known, (key, *loads_parts), count, at),
            (Deed::Other, None) => {
                let Some(waiting) = self.waiting.get_mut(&visitor.hash) else {
                    return settled(ClientKind::LIKELY_PERSON, None, None);
                };
                waiting.count.add(count);
                Outcome { kind: None, register: None, settled: None }
            }
        }
    }

    /// A page of a visitor that may be anything.
    fn take_page(
        &mut self,
        visitor: Visitor,
        known: Known,
        (key, loads_parts): (&str, bool),
        count: Count,
        at: &At<'_>,
    ) -> Outcome {
        const WAITS: Outcome = Outcome { kind: None, register: None, settled: None };
        if let Some(waiting) = self.waiting.get_mut(&visitor.hash)
            && (loads_parts || count.requests == 0)
        {
            if waiting.pages.len() >= limits::WAITING_PAGES && count.requests > 0 {
                // No browser shows so many pages without a part of any.
                self.remember(visitor, Known { verdict: Some(Verdict::Automation), ..known });
                let settled = self.settle(visitor.hash);
                return Outcome { kind: Some(ClientKind::AUTOMATION), register: None, settled };
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
            return Outcome { kind: Some(ClientKind::LIKELY_PERSON), register, settled: None };
        }
        let since = (at.now)();
        let register = if known.is_counted { None } else { visitor.register() };
        let waiting = Waiting { site: at.site.clone(), count, pages: vec![(key.into(), count)], register, since };
        self.weight += waiting.weight();
        self.order.push_back((since, visitor.hash));
        self.waiting.insert(visitor.hash, waiting);
        WAITS
    }

    /// Takes out those whose time is up at `now`, or everybody.
    fn overdue(&mut self, now: Timestamp, is_end: bool, found: &mut Vec<(ClientKind, Waiting)>) {
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
                let visitor = Visitor::new(hash, false);
                let known = self.known(visitor);
                self.remember(visitor, Known { verdict: Some(Verdict::Automation), ..known });
                found.push((ClientKind::AUTOMATION, waiting));
            } else {
                found.push((ClientKind::LIKELY_PERSON, waiting));
            }
        }
    }
}

/// Where and when something was done.
pub(super) struct At<'a> {
    /// The site.
    pub(super) site: &'a Arc<Site>,
    /// Reads the time, which most deeds need not know.
    pub(super) now: &'a dyn Fn() -> Timestamp,
}

impl People {
    /// Nobody yet.
    pub(super) fn new() -> Self {
        Self { stripes: (0..limits::VISITOR_STRIPES).map(|_| Stripe::default()).collect() }
    }

    /// Judges a visitor by what it does now, and did before. What it does counts as `count`; of more bytes of an earlier deed, it
    /// has no request.
    pub(super) fn judge(&self, visitor: Visitor, deed: &Deed<'_>, count: Count, at: &At<'_>) -> Outcome {
        self.stripe(visitor.hash).judge(visitor, deed, count, at)
    }

    /// Takes out what waited for too long, and with `is_end` all that waits. Who loaded no part in time is a program.
    pub(super) fn settle(&self, now: Timestamp, is_end: bool) -> Vec<(ClientKind, Waiting)> {
        let mut found = Vec::new();
        for stripe in &self.stripes {
            lock(stripe).overdue(now, is_end, &mut found);
        }
        found
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, Visitors> {
        // Not the bits by which the maps choose their places.
        lock(&self.stripes[(hash >> 32) as usize % self.stripes.len()])
    }
}

fn lock(stripe: &Stripe) -> MutexGuard<'_, Visitors> {
    stripe.0.lock().unwrap_or_else(PoisonError::into_inner)
}
