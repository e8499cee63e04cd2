//! Host → site: the memory of it, the reads that fill it, and the changes that empty it.
//!
//! [`memory`] holds what was read together with the `seq` of the reading, [`marks`] which changes were applied since;
//! [`follow`] applies them. SQL is in `db::routes`. Start with [`Routes::site`].

pub mod follow;
pub mod marks;
mod members;
pub mod memory;
mod source;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Instant,
};

use async_trait::async_trait;
use domain::{Clock, DeploymentId, ProjectId, addresses::HostKey, site::Site};
use tokio::sync::Mutex;

pub use self::{
    marks::{Marks, Reading},
    memory::{Membership, Memory, Recollection},
    source::{Postgres, Source},
};
use crate::{limits, sites::RecentDeployments};

/// Why it is not known which site a host is. The visitor may come again soon.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RouteError {
    /// The database does not answer.
    #[error("routes cannot be read: {0}")]
    Unreadable(Arc<str>),
    /// The project changes faster than it can be read.
    #[error("the route kept changing while it was read")]
    Unsettled,
}

/// Knows the site of every host. Answers out of memory, or after one read a host, however many ask.
pub struct Routes<S = Postgres> {
    memory: Arc<Memory>,
    source: S,
    clock: Clock,
    /// Readers of hosts that share a slot take turns, and the second finds what the first has read. The time is that
    /// of the last failure.
    turns: Box<[Mutex<Option<Instant>>]>,
    hasher: RandomState,
}

impl<S: Source> Routes<S> {
    /// An empty memory before `source`.
    pub fn new(memory: Arc<Memory>, source: S, clock: Clock) -> Self {
        let turns = (0..limits::ROUTE_READS).map(|_| Mutex::new(None)).collect();
        Self { memory, source, clock, turns, hasher: RandomState::new() }
    }

    /// What memory holds of `host` (lower case, without port).
    pub fn remembered(&self, host: &str) -> Recollection {
        match self.memory.site(host) {
            Recollection::Site(site) if self.is_over(&site) => Recollection::Nothing,
            other => other,
        }
    }

    /// The site at `host`, which is `key`; none when there is none, or no longer.
    pub async fn site(&self, host: &str, key: &HostKey) -> Result<Option<Arc<Site>>, RouteError> {
        match self.memory.site(host) {
            Recollection::Site(site) => Ok(self.unless_over(site)),
            Recollection::Nothing => Ok(None),
            Recollection::Unknown => {
                let found = tokio::time::timeout(limits::ROUTE_WAIT, self.read_in_turn(host, key)).await;
                found.unwrap_or_else(|_| Err(RouteError::Unreadable("timed out".into())))
            }
        }
    }

    async fn read_in_turn(&self, host: &str, key: &HostKey) -> Result<Option<Arc<Site>>, RouteError> {
        let mut last_failure = self.turn(host).lock().await;
        match self.memory.site(host) {
            Recollection::Site(site) => return Ok(self.unless_over(site)),
            Recollection::Nothing => return Ok(None),
            Recollection::Unknown => {}
        }
        if last_failure.is_some_and(|at| at.elapsed() < limits::ROUTE_RETRY_AFTER) {
            return Err(RouteError::Unreadable("it failed a moment ago".into()));
        }
        let read = self.read(host, key).await;
        *last_failure = read.is_err().then(Instant::now);
        read
    }

    async fn read(&self, host: &str, key: &HostKey) -> Result<Option<Arc<Site>>, RouteError> {
        for tried in 0..limits::ROUTE_READ_TRIES {
            let read = self.source.site(key, tried > 0).await?;
            let site = read.value.map(Arc::new);
            if self.memory.remember_site(host, key, site.clone(), read.seq) {
                return Ok(site.and_then(|site| self.unless_over(site)));
            }
        }
        Err(RouteError::Unsettled)
    }

    /// The project's recent deployments, newest first, for tabs that are still open; empty when they cannot be read.
    pub async fn recent(&self, project: &ProjectId) -> Arc<[DeploymentId]> {
        if let Some(recent) = self.memory.recent(project) {
            return recent;
        }
        let _turn = self.turn(project.as_str()).lock().await;
        if let Some(recent) = self.memory.recent(project) {
            return recent;
        }
        match self.source.recent(project, self.clock.now()).await {
            Ok(read) => {
                let ids: Arc<[DeploymentId]> = read.value.into();
                self.memory.remember_recent(project, ids.clone(), read.seq);
                ids
            }
            Err(error) => {
                tracing::warn!(%error, project = project.as_str(), "recent deployments cannot be read");
                Arc::new([])
            }
        }
    }

    fn turn(&self, text: &str) -> &Mutex<Option<Instant>> {
        let hash = self.hasher.hash_one(text);
        &self.turns[usize::try_from(hash % limits::ROUTE_READS as u64).unwrap_or(0)]
    }

    /// Expiry is judged here and nowhere else, at every request.
    fn is_over(&self, site: &Site) -> bool {
        site.expires_at.is_some_and(|at| at <= self.clock.now())
    }

    fn unless_over(&self, site: Arc<Site>) -> Option<Arc<Site>> {
        (!self.is_over(&site)).then_some(site)
    }
}

#[async_trait]
impl<S: Source> RecentDeployments for Routes<S> {
    async fn recent(&self, project: &ProjectId) -> Arc<[DeploymentId]> {
        Self::recent(self, project).await
    }
}

#[cfg(test)]
mod tests;
