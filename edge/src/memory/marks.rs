//! Marks: which readings are still current, because nothing that they depend on has changed since.
//!
//! A reading carries the `seq` of its snapshot. An applied change raises a mark for its subject and its hosts; a reading
//! is current only while none of its marks is above its `seq`. So nothing is searched or removed when a change comes, in
//! O(1) for a subject of any size, and it does not matter in which order a read and a change arrive here: a reading
//! from before the change is never current after it.
//!
//! Marks are shared: the names are hashed into a fixed table. Two that collide cost an unneeded read, never a stale one.
//!
//! All of this is of one epoch of the database, the one that [`super::progress`] has adopted. A reading of another epoch (of a
//! lagging copy, or of a database whose history this edge has not verified yet) is foreign: it is never current.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
};

use db::edges::routes::Extent;
use domain::{
    Epoch, Position, TokenId,
    changes::{RouteChange, Subject},
};
use tokio::{sync::Notify, time::timeout};

use super::awake::Awake;
use crate::limits;

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
    history: Mutex<History>,
    /// Notified when a reading met an epoch that is not the adopted one.
    doubted: Notify,
    /// Notified when Postgres was asked where the order of changes stands.
    looked: Notify,
    hasher: RandomState,
}

/// The history that the marks belong to.
#[derive(Debug)]
struct History {
    /// The epoch; none before it is known.
    epoch: Option<Epoch>,
    /// The greatest end of a reading in this era. It may be of a change that is not applied yet, or has no number.
    newest_reading: i64,
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
            history: Mutex::new(History { epoch: None, newest_reading: i64::MIN }),
            doubted: Notify::new(),
            looked: Notify::new(),
            hasher: RandomState::new(),
        }
    }
}

impl Marks {
    /// The name that a change of any token raises the mark of: for what was read of a token that was not there.
    pub const ANY_TOKEN: &'static str = TokenId::PREFIX;
    /// The name whose mark another epoch raises: for what was read at a [`Moment`].
    const ANY_EPOCH: &'static str = "epoch";
    /// The era of a reading that is of another epoch. No era that begins has this number.
    const FOREIGN: u32 = u32::MAX;

    /// A reading that includes these changes, and that a change of any of these names overtakes.
    pub fn reading(&self, extent: &Extent, names: [&str; 3]) -> Reading {
        self.reading_between(extent, extent, names)
    }

    /// A reading that was made after one with the `first` extent and before one with the `last`.
    pub fn reading_between(&self, first: &Extent, last: &Extent, names: [&str; 3]) -> Reading {
        let mut history = self.history();
        let is_ours = [first, last].iter().all(|at| history.epoch.as_ref() == Some(&at.position.epoch));
        let era = if is_ours {
            history.newest_reading = history.newest_reading.max(last.end);
            self.era.load(Ordering::Acquire)
        } else {
            Self::FOREIGN
        };
        Reading { seq: first.position.seq, era, marks: names.map(|name| self.mark_of(name)) }
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

    /// A reading of what was asked for at this `moment` that a change of `name` overtakes, and another epoch: how much newer than the
    /// moment it is, is not known, so it may be of a change that was lost.
    pub fn reading_at(&self, moment: Moment, name: &str) -> Reading {
        let marks = [name, name, Self::ANY_EPOCH].map(|name| self.mark_of(name));
        Reading { seq: moment.seq, era: moment.era, marks }
    }

    /// Whether the reading is of another epoch than the one that was adopted when it was made.
    pub fn is_foreign(reading: &Reading) -> bool {
        reading.era == Self::FOREIGN
    }

    /// Has Postgres asked where the order of changes stands, because it seems to be in another epoch. Done once it was asked, or after
    /// [`limits::LOOK_WAIT`].
    pub(super) async fn settle_epoch(&self) {
        let mut looked = std::pin::pin!(self.looked.notified());
        looked.as_mut().enable();
        self.doubted.notify_one();
        let _ = timeout(limits::LOOK_WAIT, looked).await;
    }

    /// Done when Postgres has to be asked out of turn: this process has slept, or a reading met another epoch.
    pub(super) async fn look_wanted(&self) {
        tokio::select! {
            () = self.awake.slept() => {}
            () = self.doubted.notified() => {}
        }
    }

    /// Notes that Postgres was asked, in vain or not.
    pub(super) fn note_look(&self) {
        self.looked.notify_waiters();
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
            // Nothing is remembered of a thing of an unknown kind, but its hosts may be of known ones.
            Subject::Project(_)
            | Subject::Org(_)
            | Subject::User(_)
            | Subject::Certificate(_)
            | Subject::Unknown(_) => None,
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

    /// Begins with the first epoch that is known.
    pub(crate) fn begin(&self, epoch: Epoch) {
        self.history().epoch = Some(epoch);
    }

    /// Goes on in `newest`'s epoch with everything that was read, after it was verified that the changes up to `reached` are in
    /// it. Returns false, and changes nothing, when something was read that is newer than these: it may be of a lost change.
    pub(super) fn adopt(&self, newest: &Position, reached: i64) -> bool {
        let mut history = self.history();
        if history.newest_reading > reached {
            return false;
        }
        history.epoch = Some(newest.epoch.clone());
        self.newest[usize::from(self.mark_of(Self::ANY_EPOCH))].fetch_max(newest.seq, Ordering::AcqRel);
        true
    }

    /// Ends whatever was read, and lowers every mark: the order of changes began anew, in `epoch`.
    pub(crate) fn start_over(&self, epoch: Epoch) {
        // Held to the end, so that a reading is of one of the two eras as a whole.
        let mut history = self.history();
        *history = History { epoch: Some(epoch), newest_reading: i64::MIN };
        self.applied.store(i64::MIN, Ordering::Release);
        self.era.fetch_add(1, Ordering::AcqRel);
        for mark in &self.newest {
            mark.store(i64::MIN, Ordering::Release);
        }
        self.floor.store(i64::MIN, Ordering::Release);
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_of(&self, name: &str) -> u16 {
        // The lowest 16 bits: the table has 2^16 marks.
        (self.hasher.hash_one(name) & 0xffff) as u16
    }
}
