//! Marks: which readings are still current, because nothing that they depend on has changed since.
//!
//! A reading carries the `seq` of its snapshot. An applied change raises a mark for its subject and its hosts; a reading
//! is current only while none of its marks is above its `seq`. So nothing is searched or removed when a change comes, in
//! O(1) for a subject of any size, and it does not matter in which order a read and a change arrive here: a reading
//! from before the change is never current after it.
//!
//! Marks are shared: the names are hashed into a fixed table. Two that collide cost an unneeded read, never a stale one.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
};

use domain::{
    TokenId,
    changes::{RouteChange, Subject},
};

use super::awake::Awake;

/// A power of two; 512 KiB of marks.
const MARKS: usize = 1 << 16;

/// The newest applied change of each name.
pub struct Marks {
    /// The newest change of the names that share a mark.
    newest: Box<[AtomicI64]>,
    /// Readings from before this change are not current, whatever they depend on.
    floor: AtomicI64,
    /// Whether neither Redis nor Postgres has confirmed anything for too long.
    lapsed: AtomicBool,
    /// Whether this process has run all the time.
    awake: Awake,
    /// The change up to which all are applied; the least number before it is known.
    applied: AtomicI64,
    /// The number of times that the order of changes began anew. Readings of another era are not current.
    era: AtomicU32,
    hasher: RandomState,
}

/// The place of something read in the order of changes, and the marks of what it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    seq: i64,
    era: u32,
    marks: [u16; 3],
}

/// A place in the order of changes: all up to it were applied here before something was asked of admin, whose answer therefore
/// has them in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    seq: i64,
    era: u32,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            newest: (0..MARKS).map(|_| AtomicI64::new(i64::MIN)).collect(),
            floor: AtomicI64::new(i64::MIN),
            lapsed: AtomicBool::new(false),
            awake: Awake::default(),
            applied: AtomicI64::new(i64::MIN),
            era: AtomicU32::new(0),
            hasher: RandomState::new(),
        }
    }
}

impl Marks {
    /// The name that a change of any token raises the mark of: for what was read of a token that was not there.
    pub const ANY_TOKEN: &'static str = TokenId::PREFIX;

    /// A reading as of `seq` that a change of any of these names overtakes.
    pub fn reading(&self, seq: i64, names: [&str; 3]) -> Reading {
        Reading { seq, era: self.era.load(Ordering::Acquire), marks: names.map(|name| self.mark_of(name)) }
    }

    /// The change up to which all are applied; none before it is known.
    pub fn applied(&self) -> Option<i64> {
        Some(self.applied.load(Ordering::Acquire)).filter(|seq| *seq != i64::MIN)
    }

    /// The present place in the order of changes, once it is known.
    pub fn moment(&self) -> Option<Moment> {
        // The era first: one that begins meanwhile has not applied anything yet.
        let era = self.era.load(Ordering::Acquire);
        let seq = self.applied.load(Ordering::Acquire);
        (seq != i64::MIN).then_some(Moment { seq, era })
    }

    /// A reading of what was asked for at this `moment` that a change of any of these names overtakes.
    pub fn reading_at(&self, moment: Moment, names: [&str; 3]) -> Reading {
        Reading { seq: moment.seq, era: moment.era, marks: names.map(|name| self.mark_of(name)) }
    }

    /// Whether no change of what the reading depends on was applied that is newer than it.
    pub fn is_current(&self, reading: &Reading) -> bool {
        let mark = |at: u16| self.newest[usize::from(at)].load(Ordering::Acquire);
        reading.marks.iter().all(|at| reading.seq >= mark(*at))
            && reading.seq >= self.floor.load(Ordering::Acquire)
            && reading.era == self.era.load(Ordering::Acquire)
    }

    /// Whether no change of `name` was applied that is newer than the reading.
    pub fn is_untouched(&self, reading: &Reading, name: &str) -> bool {
        reading.seq >= self.newest[usize::from(self.mark_of(name))].load(Ordering::Acquire)
    }

    /// Whether nothing was confirmed for so long that memory is not to be believed.
    pub fn has_lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Relaxed)
    }

    /// Whether this process has run all the time, and so can have missed nothing.
    pub fn awake(&self) -> &Awake {
        &self.awake
    }

    pub(super) fn set_lapsed(&self, lapsed: bool) {
        self.lapsed.store(lapsed, Ordering::Relaxed);
    }

    /// Ends what was read before `change` of its subject and its hosts.
    pub(crate) fn apply(&self, change: &RouteChange) {
        let more = match &change.subject {
            Subject::Token(_) => Some(Self::ANY_TOKEN),
            // The account's keys carry what its plan allows.
            Subject::Plan(plan) => Some(plan.account().as_str()),
            Subject::Project(_) | Subject::Org(_) | Subject::User(_) | Subject::Certificate(_) => None,
        };
        let names = std::iter::once(change.subject.as_str()).chain(more);
        for name in names.chain(change.hosts.iter().map(String::as_str)) {
            self.newest[usize::from(self.mark_of(name))].fetch_max(change.seq, Ordering::AcqRel);
        }
    }

    /// Notes that every change up to `seq` is applied.
    pub(crate) fn set_applied(&self, seq: i64) {
        self.applied.store(seq, Ordering::Release);
    }

    /// Ends whatever was read before change `seq`.
    pub(super) fn forget_before(&self, seq: i64) {
        self.floor.fetch_max(seq, Ordering::AcqRel);
    }

    /// Ends whatever was read, and lowers every mark: the order of changes began anew (another database).
    pub(crate) fn start_over(&self) {
        self.applied.store(i64::MIN, Ordering::Release);
        self.era.fetch_add(1, Ordering::AcqRel);
        for mark in &self.newest {
            mark.store(i64::MIN, Ordering::Release);
        }
        self.floor.store(i64::MIN, Ordering::Release);
    }

    fn mark_of(&self, name: &str) -> u16 {
        // The lowest 16 bits: the table has 2^16 marks.
        (self.hasher.hash_one(name) & 0xffff) as u16
    }
}
