//! What was read, as of which change, and which changes were applied since.
//!
//! A remembered route carries the `seq` of its reading. An applied change raises a mark for its project and its hosts;
//! a route counts only while none of its marks is above its `seq`. So nothing is searched or removed when a change
//! comes, in O(1) for a project of any size, and it does not matter in which order a read and a change arrive here: a
//! reading from before the change never counts after it.
//!
//! Marks are shared: the names are hashed into a fixed table. Two that collide cost an unneeded read, never a stale one.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use common::{
    domain::{DeploymentId, ProjectId},
    routes::{HostKey, RouteChange, Site},
};
use moka::sync::Cache;

use crate::limits;

/// A power of two; 512 KiB of marks.
const MARKS: usize = 1 << 16;

/// What memory holds of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recollection {
    /// This site.
    Site(Arc<Site>),
    /// That there is none.
    Nothing,
    /// Nothing that counts: ask the database.
    Unknown,
}

/// The edge's memory of routes.
pub struct Memory {
    sites: Cache<Box<str>, Remembered<Arc<Site>>>,
    absences: Cache<Box<str>, Remembered<()>>,
    recents: Cache<ProjectId, Remembered<Arc<[DeploymentId]>>>,
    marks: Box<[AtomicI64]>,
    /// Readings from before this change count no more, whatever they are of.
    floor: AtomicI64,
    /// Nobody has confirmed anything for too long.
    lapsed: AtomicBool,
    hasher: RandomState,
}

#[derive(Clone)]
struct Remembered<T> {
    value: T,
    /// The newest change the reading includes.
    seq: i64,
    /// Its marks: of the project and of the host, or twice the same.
    marks: [u16; 2],
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            sites: Cache::new(limits::REMEMBERED_SITES),
            absences: Cache::new(limits::REMEMBERED_ABSENCES),
            recents: Cache::builder()
                .max_capacity(limits::REMEMBERED_RECENTS)
                .time_to_live(limits::RECENTS_LIFE)
                .build(),
            marks: (0..MARKS).map(|_| AtomicI64::new(i64::MIN)).collect(),
            floor: AtomicI64::new(i64::MIN),
            lapsed: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
    }
}

impl Memory {
    /// What is remembered of `host`.
    pub fn site(&self, host: &str) -> Recollection {
        if self.lapsed.load(Ordering::Relaxed) {
            return Recollection::Unknown;
        }
        if let Some(known) = self.sites.get(host).filter(|known| self.counts(known)) {
            return Recollection::Site(known.value);
        }
        match self.absences.get(host) {
            Some(known) if self.counts(&known) => Recollection::Nothing,
            _ => Recollection::Unknown,
        }
    }

    /// Remembers what was read of `host` as of `seq`. Says whether that counts: it does not when a newer change of
    /// this project or host has been applied, and then it must not be served either.
    pub fn remember_site(&self, host: &str, key: &HostKey, site: Option<Arc<Site>>, seq: i64) -> bool {
        let at_host = self.mark_of(&key.label());
        let Some(site) = site else {
            let known = Remembered { value: (), seq, marks: [at_host; 2] };
            let counts = self.counts(&known);
            self.absences.insert(host.into(), known);
            return counts;
        };
        let marks = [self.mark_of(site.project.as_str()), at_host];
        let known = Remembered { value: site, seq, marks };
        let counts = self.counts(&known);
        self.sites.insert(host.into(), known);
        counts
    }

    /// The remembered recent deployments of `project`.
    pub fn recent(&self, project: &ProjectId) -> Option<Arc<[DeploymentId]>> {
        self.recents.get(project).filter(|known| self.counts(known)).map(|known| known.value)
    }

    /// Remembers the recent deployments of `project` as of `seq`.
    pub fn remember_recent(&self, project: &ProjectId, ids: Arc<[DeploymentId]>, seq: i64) {
        let mark = self.mark_of(project.as_str());
        self.recents.insert(project.clone(), Remembered { value: ids, seq, marks: [mark; 2] });
    }

    /// From now on nothing that was read before `change` counts, of its project and its hosts.
    pub fn apply(&self, change: &RouteChange) {
        for name in std::iter::once(change.subject.as_str()).chain(change.hosts.iter().map(String::as_str)) {
            self.marks[usize::from(self.mark_of(name))].fetch_max(change.seq, Ordering::AcqRel);
        }
    }

    /// From now on nothing that was read before change `seq` counts.
    pub fn forget_before(&self, seq: i64) {
        self.floor.fetch_max(seq, Ordering::AcqRel);
    }

    /// The order of changes began anew (another database): forgets everything, the marks too.
    pub fn start_over(&self) {
        self.sites.invalidate_all();
        self.absences.invalidate_all();
        self.recents.invalidate_all();
        for mark in &self.marks {
            mark.store(i64::MIN, Ordering::Release);
        }
        self.floor.store(i64::MIN, Ordering::Release);
    }

    /// Whether memory is too old to be believed.
    pub fn set_lapsed(&self, lapsed: bool) {
        self.lapsed.store(lapsed, Ordering::Relaxed);
    }

    /// Hosts remembered with a site, about.
    pub fn len(&self) -> u64 {
        self.sites.run_pending_tasks();
        self.sites.entry_count()
    }

    /// Whether no host is remembered with a site.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn counts<T>(&self, known: &Remembered<T>) -> bool {
        let mark = |at: u16| self.marks[usize::from(at)].load(Ordering::Acquire);
        known.seq >= mark(known.marks[0])
            && known.seq >= mark(known.marks[1])
            && known.seq >= self.floor.load(Ordering::Acquire)
    }

    fn mark_of(&self, name: &str) -> u16 {
        // The lowest 16 bits: the table has 2^16 marks.
        (self.hasher.hash_one(name) & 0xffff) as u16
    }
}
