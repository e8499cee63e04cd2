//! Marks: which readings are still current, because nothing that they depend on has changed since.
//!
//! A reading carries the `seq` of its snapshot. Applying a change raises the marks of its subject and its hosts, and a
//! reading is current only while none of its marks exceeds its `seq`. So invalidation needs no search: it is O(1) for a
//! subject of any size. The order in which a read and a change arrive here does not matter: a reading from before the
//! change is never current after it.
//!
//! Marks are shared: names are hashed into a fixed table. A collision costs an unneeded read, never a stale one.
//!
//! All marks belong to one epoch of the database, which [`super::progress`] has adopted. A reading of another epoch (of
//! a lagging replica, or of a database whose history this edge has not verified yet) is foreign, and never current.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
};

use db::edges::routes::SnapshotExtent;
use domain::{
    ChangePosition, Epoch, TokenId,
    changes::{ChangeSubject, RouteChange},
};
use tokio::{sync::Notify, time::timeout};

use super::awake::SleepDetector;

/// A power of two; 512 KiB of marks.
const MARKS: usize = 1 << 16;

/// The latest applied change of each name.
pub struct ChangeMarks {
    /// The latest change of the names that share a mark.
    newest: Box<[AtomicI64]>,
    /// Readings from before this change are not current, whatever they depend on.
    floor: AtomicI64,
    /// Whether neither Redis nor Postgres has confirmed the state for too long.
    lapsed: AtomicBool,
    /// Detects that this process did not run all the time.
    awake: SleepDetector,
    /// The change up to which all are applied; `i64::MIN` before it is known.
    applied: AtomicI64,
    /// The number of times that the order of changes restarted. Readings of another era are not current.
    era: AtomicU32,
    history: Mutex<EpochHistory>,
    /// Notified when a reading has an epoch other than the adopted one.
    doubted: Notify,
    /// Notified when Postgres was queried for the current position.
    looked: Notify,
    hasher: RandomState,
}

#[derive(Debug)]
struct EpochHistory {
    epoch: Option<Epoch>,
    /// The greatest end of a reading in this era, which may be of a change that is not applied yet, or has no number.
    newest_reading: i64,
}

/// The position of a read value in the order of changes, and the marks of what it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeReading {
    seq: i64,
    era: u32,
    marks: [u16; 3],
}

/// A position up to which all changes were applied before a request to admin, whose response includes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedMoment {
    seq: i64,
    era: u32,
}

impl Default for ChangeMarks {
    fn default() -> Self {
        Self {
            newest: (0..MARKS).map(|_| AtomicI64::new(i64::MIN)).collect(),
            floor: AtomicI64::new(i64::MIN),
            lapsed: AtomicBool::new(false),
            awake: SleepDetector::default(),
            applied: AtomicI64::new(i64::MIN),
            era: AtomicU32::new(0),
            history: Mutex::new(EpochHistory { epoch: None, newest_reading: i64::MIN }),
            doubted: Notify::new(),
            looked: Notify::new(),
            hasher: RandomState::new(),
        }
    }
}

impl ChangeMarks {
    /// The name whose mark a change of any token raises, for readings of a missing token.
    pub const ANY_TOKEN: &'static str = TokenId::PREFIX;
    /// The name whose mark a new epoch raises, for readings at a [`AppliedMoment`].
    const ANY_EPOCH: &'static str = "epoch";
    /// The era of a reading of another epoch. No actual era has this number.
    const FOREIGN: u32 = u32::MAX;

    /// Creates a reading that includes the changes in `extent`, and that a change of any of `names` overtakes.
    pub fn reading(&self, extent: &SnapshotExtent, names: [&str; 3]) -> ChangeReading {
        self.reading_between(extent, extent, names)
    }

    /// Creates a reading that was made after one with the `first` extent and before one with the `last`.
    pub fn reading_between(&self, first: &SnapshotExtent, last: &SnapshotExtent, names: [&str; 3]) -> ChangeReading {
        let mut history = self.history();
        let is_ours = [first, last].iter().all(|at| history.epoch.as_ref() == Some(&at.position.epoch));
        let era = if is_ours {
            history.newest_reading = history.newest_reading.max(last.end);
            self.era.load(Ordering::Acquire)
        } else {
            Self::FOREIGN
        };
        ChangeReading { seq: first.position.seq, era, marks: names.map(|name| self.mark_index(name)) }
    }

    /// Returns the change up to which all are applied; `None` before it is known.
    pub fn applied(&self) -> Option<i64> {
        Some(self.applied.load(Ordering::Acquire)).filter(|seq| *seq != i64::MIN)
    }

    /// Returns the current position in the order of changes, once it is known.
    pub fn moment(&self) -> Option<AppliedMoment> {
        // Load the era first: one that starts meanwhile has not applied anything yet.
        let era = self.era.load(Ordering::Acquire);
        let seq = self.applied.load(Ordering::Acquire);
        (seq != i64::MIN).then_some(AppliedMoment { seq, era })
    }

    /// Creates a reading of a value requested at `moment`. A change of `name` overtakes it, and so does another epoch:
    /// the value may be newer than the moment, and stem from a lost change.
    pub fn reading_at(&self, moment: AppliedMoment, name: &str) -> ChangeReading {
        let marks = [name, name, Self::ANY_EPOCH].map(|name| self.mark_index(name));
        ChangeReading { seq: moment.seq, era: moment.era, marks }
    }

    /// Returns whether the reading is of an epoch other than the one adopted when it was made.
    pub fn is_foreign(reading: &ChangeReading) -> bool {
        reading.era == Self::FOREIGN
    }

    /// Has Postgres queried for its position, which seems to be in another epoch. Waits at most [`limits::POLL_WAIT`].
    pub(super) async fn settle_epoch(&self) {
        let mut looked = std::pin::pin!(self.looked.notified());
        looked.as_mut().enable();
        self.doubted.notify_one();
        let _ = timeout(limits::POLL_WAIT, looked).await;
    }

    /// Waits until Postgres has to be queried out of turn: this process has slept, or a reading has another epoch.
    pub(super) async fn look_requested(&self) {
        tokio::select! {
            () = self.awake.sleep_detected() => {}
            () = self.doubted.notified() => {}
        }
    }

    pub(super) fn notify_looked(&self) {
        self.looked.notify_waiters();
    }

    /// Returns whether no newer change of what the reading depends on was applied.
    pub fn is_current(&self, reading: &ChangeReading) -> bool {
        let mark = |at: u16| self.newest[usize::from(at)].load(Ordering::Acquire);
        reading.marks.iter().all(|at| reading.seq >= mark(*at))
            && reading.seq >= self.floor.load(Ordering::Acquire)
            && reading.era == self.era.load(Ordering::Acquire)
    }

    /// Returns whether no change of `name` newer than the reading was applied.
    pub fn is_current_for(&self, reading: &ChangeReading, name: &str) -> bool {
        reading.seq >= self.newest[usize::from(self.mark_index(name))].load(Ordering::Acquire)
    }

    /// Returns whether the state was unconfirmed for so long that memory must not be trusted.
    pub fn has_lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Relaxed)
    }

    /// Returns the detector of whether this process has run all the time, and so cannot have missed changes.
    pub fn awake(&self) -> &SleepDetector {
        &self.awake
    }

    pub(super) fn set_lapsed(&self, lapsed: bool) {
        self.lapsed.store(lapsed, Ordering::Relaxed);
    }

    /// Invalidates readings from before `change` of its subject and its hosts.
    pub fn apply(&self, change: &RouteChange) {
        let more = match &change.subject {
            ChangeSubject::Token(_) => Some(Self::ANY_TOKEN),
            // The account's keys contain the limits of its plan.
            ChangeSubject::Plan(plan) => Some(plan.account().as_str()),
            // Subjects of an unknown kind are not cached, but their hosts may be of known kinds.
            ChangeSubject::Project(_)
            | ChangeSubject::Org(_)
            | ChangeSubject::User(_)
            | ChangeSubject::Certificate(_)
            | ChangeSubject::Unknown(_) => None,
        };
        let names = std::iter::once(change.subject.as_str()).chain(more);
        for name in names.chain(change.hosts.iter().map(String::as_str)) {
            self.newest[usize::from(self.mark_index(name))].fetch_max(change.seq, Ordering::AcqRel);
        }
    }

    /// Records that all changes up to the one numbered `seq` are applied.
    pub fn set_applied(&self, seq: i64) {
        self.applied.store(seq, Ordering::Release);
    }

    /// Invalidates all readings from before change `seq`.
    pub(super) fn forget_before(&self, seq: i64) {
        self.floor.fetch_max(seq, Ordering::AcqRel);
    }

    /// Sets the first known epoch.
    pub(crate) fn begin(&self, epoch: Epoch) {
        self.history().epoch = Some(epoch);
    }

    /// Adopts the epoch of `newest` and keeps all readings, after it was verified that it includes the changes up to
    /// `reached`.
    ///
    /// Returns false, and changes nothing, if any reading is newer than `reached`: it may be of a lost change.
    pub(super) fn adopt(&self, newest: &ChangePosition, reached: i64) -> bool {
        let mut history = self.history();
        if history.newest_reading > reached {
            return false;
        }
        history.epoch = Some(newest.epoch.clone());
        self.newest[usize::from(self.mark_index(Self::ANY_EPOCH))].fetch_max(newest.seq, Ordering::AcqRel);
        true
    }

    /// Invalidates all readings, and lowers every mark: the order of changes restarted, in `epoch`.
    pub fn start_over(&self, epoch: Epoch) {
        // Held to the end, so that each reading belongs entirely to one of the two eras.
        let mut history = self.history();
        *history = EpochHistory { epoch: Some(epoch), newest_reading: i64::MIN };
        self.applied.store(i64::MIN, Ordering::Release);
        self.era.fetch_add(1, Ordering::AcqRel);
        for mark in &self.newest {
            mark.store(i64::MIN, Ordering::Release);
        }
        self.floor.store(i64::MIN, Ordering::Release);
    }

    fn history(&self) -> MutexGuard<'_, EpochHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_index(&self, name: &str) -> u16 {
        // The lowest 16 bits: the table has 2^16 marks.
        (self.hasher.hash_one(name) & 0xffff) as u16
    }
}
