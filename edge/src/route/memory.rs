//! What was read of hosts, each with the reading's place in the order of changes: see [`super::marks`].

use std::{hash::RandomState, sync::Arc};

use domain::{DeploymentId, OrgId, ProjectId, UserId, addresses::HostKey, changes::RouteChange, site::Site};
use moka::sync::Cache;
use quick_cache::UnitWeighter;

use super::marks::{Marks, Reading};
use crate::limits;

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

/// A person's place in an organization, as far as gates care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// How often the person has signed out everywhere: a cookie from before counts no more.
    pub gate_version: i64,
}

/// The edge's memory of routes.
pub struct Memory {
    /// Asked at every request, hence the one that is cheapest to ask. Its hasher is keyed: people choose host names.
    sites: quick_cache::sync::Cache<Box<str>, Remembered<Arc<Site>>, UnitWeighter, RandomState>,
    absences: Cache<Box<str>, Remembered<()>>,
    recents: Cache<ProjectId, Remembered<Arc<[DeploymentId]>>>,
    memberships: Cache<(OrgId, UserId), Remembered<Option<Membership>>>,
    marks: Arc<Marks>,
}

#[derive(Clone)]
struct Remembered<T> {
    value: T,
    reading: Reading,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            sites: quick_cache::sync::Cache::with(
                limits::REMEMBERED_SITES,
                limits::REMEMBERED_SITES as u64,
                UnitWeighter,
                RandomState::new(),
                quick_cache::sync::DefaultLifecycle::default(),
            ),
            absences: Cache::new(limits::REMEMBERED_ABSENCES),
            recents: Cache::builder()
                .max_capacity(limits::REMEMBERED_RECENTS)
                .time_to_live(limits::RECENTS_LIFE)
                .build(),
            memberships: Cache::new(limits::REMEMBERED_MEMBERSHIPS),
            marks: Arc::default(),
        }
    }
}

impl Memory {
    /// Which readings count: for whatever else is remembered of what changes.
    pub fn marks(&self) -> Arc<Marks> {
        self.marks.clone()
    }

    /// What is remembered of `host`.
    pub fn site(&self, host: &str) -> Recollection {
        if self.marks.lapsed() {
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
        let label = key.label();
        let Some(site) = site else {
            let known = Remembered { value: (), reading: self.marks.reading(seq, [&label; 2]) };
            let counts = self.counts(&known);
            self.absences.insert(host.into(), known);
            return counts;
        };
        let reading = self.marks.reading(seq, [site.project.as_str(), &label]);
        let known = Remembered { value: site, reading };
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
        let reading = self.marks.reading(seq, [project.as_str(); 2]);
        self.recents.insert(project.clone(), Remembered { value: ids, reading });
    }

    /// What is remembered of the user's place in the org; none when nothing is that counts, `Some(None)` when there is
    /// no such place.
    pub fn membership(&self, org: &OrgId, user: &UserId) -> Option<Option<Membership>> {
        if self.marks.lapsed() {
            return None;
        }
        let known = self.memberships.get(&(org.clone(), user.clone()))?;
        self.counts(&known).then_some(known.value)
    }

    /// Remembers the user's place in the org as of `seq`. Says whether that counts, as [`Self::remember_site`] does.
    pub fn remember_membership(&self, org: &OrgId, user: &UserId, place: Option<Membership>, seq: i64) -> bool {
        let reading = self.marks.reading(seq, [org.as_str(), user.as_str()]);
        let known = Remembered { value: place, reading };
        let counts = self.counts(&known);
        self.memberships.insert((org.clone(), user.clone()), known);
        counts
    }

    /// From now on nothing that was read before `change` counts, of its subject and its hosts.
    pub fn apply(&self, change: &RouteChange) {
        self.marks.apply(change);
    }

    /// From now on nothing that was read before change `seq` counts.
    pub fn forget_before(&self, seq: i64) {
        self.marks.forget_before(seq);
    }

    /// The order of changes began anew (another database): forgets everything, the marks too.
    pub fn start_over(&self) {
        self.marks.start_over();
        self.sites.clear();
        self.absences.invalidate_all();
        self.recents.invalidate_all();
        self.memberships.invalidate_all();
    }

    /// Whether memory is too old to be believed.
    pub fn set_lapsed(&self, lapsed: bool) {
        self.marks.set_lapsed(lapsed);
    }

    /// Hosts remembered with a site.
    pub fn len(&self) -> usize {
        self.sites.len()
    }

    /// Whether no host is remembered with a site.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    fn counts<T>(&self, known: &Remembered<T>) -> bool {
        self.marks.counts(&known.reading)
    }
}
