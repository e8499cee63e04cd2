//! Hosts and their sites, and projects' recent deployments.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use async_trait::async_trait;
use domain::{Clock, DeploymentId, ProjectId, addresses::HostKey, changes::AccountPlan, site::Site};
use fairness::Client;
use limits::MemoryShares;
use telemetry::{OutageLine, OutageLog};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    CacheReadError, Cached, ChangeMarks, PostgresSource, RouteSource,
    recall::{ReadThroughCache, ReadThroughLimits, SourceRead},
    unknown::{self, UnknownCounter},
};

/// Represents all visitors together where they share one client's limits.
const EVERYBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Looks up a project's recent deployments, newest first, for open tabs, and whether a deployment still exists.
#[async_trait]
pub trait RecentDeployments: Send + Sync + 'static {
    /// Returns the recent deployments that were published under the project's present access.
    async fn recent(&self, project: &ProjectId) -> Arc<[DeploymentId]>;
    /// Returns whether a deployment with files, of which the store has no pack, still exists.
    ///
    /// Queries the database, because the cache may be slightly stale. Returns true if the database does not respond, so
    /// that an existing deployment is never reported as deleted.
    async fn is_kept(&self, id: &DeploymentId) -> bool;
}

/// A read-through cache of the site of each host over `source`.
pub struct RouteCache<S = PostgresSource> {
    /// Used by every request.
    sites: ReadThroughCache<Box<str>, Arc<Site>>,
    recents: ReadThroughCache<ProjectId, Arc<[DeploymentId]>>,
    /// Requested shares that do not exist: most shares are protected only by their names.
    unknown_shares: UnknownCounter,
    marks: Arc<ChangeMarks>,
    source: S,
    clock: Clock,
    /// Limits concurrent checks whether a deployment still exists.
    kept_looks: Semaphore,
}

impl<S: RouteSource> RouteCache<S> {
    /// Creates an empty cache over `source` with the capacity in `shares`. Changes that reach `marks` invalidate it.
    pub fn new(marks: Arc<ChangeMarks>, source: S, shares: &MemoryShares, clock: Clock) -> Self {
        let bounds = ReadThroughLimits {
            present: shares.routes,
            usual: limits::SITE_BYTES,
            absent: shares.absences(),
            present_life: None,
            absent_life: None,
            can_lapse: true,
            flights: limits::FLIGHTS,
            askers_per_client: limits::ASKERS_PER_CLIENT,
            reads: limits::ROUTE_READS,
            reads_per_client: limits::ROUTE_READS_PER_CLIENT,
            wait: limits::ROUTE_WAIT,
            tries: limits::READ_TRIES,
            back_off: limits::READ_BACK_OFF,
            failures: limits::FAILURES,
        };
        let recents_bounds = ReadThroughLimits {
            present: shares.recents,
            usual: limits::RECENT_BYTES + limits::USUAL_RECENT_BYTES,
            present_life: Some(limits::RECENTS_LIFE),
            // Strangers cannot make up projects, so all visitors count as one client.
            askers_per_client: limits::FLIGHTS,
            reads_per_client: limits::ROUTE_READS,
            ..bounds
        };
        Self {
            sites: ReadThroughCache::new(marks.clone(), bounds),
            recents: ReadThroughCache::new(marks.clone(), recents_bounds),
            unknown_shares: UnknownCounter::new(unknown::SHARES),
            marks,
            source,
            clock,
            kept_looks: Semaphore::new(limits::KEPT_LOOKS),
        }
    }

    /// Returns the bytes of memory that the cached sites are charged with, without recent deployments.
    pub fn bytes(&self) -> u64 {
        self.sites.bytes()
    }

    /// Returns what is cached for `host` (lower case, without port). An expired site is absent.
    pub fn cached(&self, host: &str) -> Cached<Arc<Site>> {
        match self.sites.cached(host) {
            Cached::Present(site) if self.is_expired(&site) => Cached::Absent,
            other => other,
        }
    }

    /// Returns the site at `host`, which is `key`, for a visit of `asker`; `None` if there is none or it has expired.
    ///
    /// An asker that has requested too many missing shares gets only cached ones.
    pub async fn site(&self, host: &str, key: &HostKey, asker: Client) -> Result<Option<Arc<Site>>, CacheReadError> {
        let name: Box<str> = host.into();
        // Refused clients do not need a turn.
        if matches!(key, HostKey::Share(_)) && matches!(self.sites.cached(host), Cached::Unknown) {
            self.admit_share_lookup(asker)?;
        }
        let site = self.sites.find(&name, asker, |is_retry| self.read_site_for(asker, &name, key, is_retry)).await?;
        Ok(site.filter(|site| !self.is_expired(site)))
    }

    /// Reads a site in `asker`'s turn, and checks its limit there, so that concurrent requests exceed it by few.
    async fn read_site_for(
        &self,
        asker: Client,
        host: &str,
        key: &HostKey,
        is_retry: bool,
    ) -> Result<SourceRead<Box<str>, Arc<Site>>, CacheReadError> {
        let is_share = matches!(key, HostKey::Share(_));
        if is_share && !is_retry {
            self.admit_share_lookup(asker)?;
        }
        let read = self.read_site(host, key, is_retry).await?;
        if is_share && !is_retry && read.value.is_none() {
            self.unknown_shares.count(asker);
        }
        Ok(read)
    }

    fn admit_share_lookup(&self, asker: Client) -> Result<(), CacheReadError> {
        self.unknown_shares.admit(asker).map_err(CacheReadError::TooManyUnknown)
    }

    async fn read_site(
        &self,
        host: &str,
        key: &HostKey,
        is_retry: bool,
    ) -> Result<SourceRead<Box<str>, Arc<Site>>, CacheReadError> {
        let read = self.source.site(key, is_retry).await?;
        let label = key.label();
        let subject = read.value.as_ref().map_or(label.as_str(), |site| site.project.as_str());
        let plan = read.value.as_ref().map(|site| AccountPlan::from(site.owner.account().clone()));
        let reading =
            self.marks.reading(&read.extent, [subject, &label, plan.as_ref().map_or(&label, AccountPlan::as_str)]);
        Ok(SourceRead { key: host.into(), value: read.value.map(Arc::new), reading, bytes: limits::SITE_BYTES })
    }

    /// Returns the project's recent deployments, newest first, for open tabs; empty if they cannot be read.
    pub async fn recent(&self, project: &ProjectId) -> Arc<[DeploymentId]> {
        match self.recents.find(project, Client::from(EVERYBODY), |is_retry| self.read_recent(project, is_retry)).await
        {
            Ok(recent) => recent.unwrap_or_default(),
            Err(error) => {
                static UNREAD: OutageLog = OutageLog::new();
                if let Some(OutageLine { left_out, .. }) = UNREAD.record_failure() {
                    tracing::warn!(%error, project = project.as_str(), left_out, "recent deployments cannot be read");
                }
                Arc::default()
            }
        }
    }

    async fn read_recent(
        &self,
        project: &ProjectId,
        is_retry: bool,
    ) -> Result<SourceRead<ProjectId, Arc<[DeploymentId]>>, CacheReadError> {
        let read = self.source.recent(project, self.clock.now(), is_retry).await?;
        let reading = self.marks.reading(&read.extent, [project.as_str(); 3]);
        let value: Arc<[DeploymentId]> = read.value.into();
        let bytes = limits::RECENT_BYTES + size_of_val(&*value) as u64;
        Ok(SourceRead { key: project.clone(), value: Some(value), reading, bytes })
    }

    async fn is_kept(&self, id: &DeploymentId) -> bool {
        let look = async {
            let _turn = self.kept_looks.acquire().await.ok()?;
            self.source.is_kept(id).await.ok()
        };
        timeout(limits::KEPT_WAIT, look).await.ok().flatten().unwrap_or(true)
    }

    /// Checked at every request, not when the site is read.
    fn is_expired(&self, site: &Site) -> bool {
        site.expires_at.is_some_and(|at| at <= self.clock.now())
    }
}

#[async_trait]
impl<S: RouteSource> RecentDeployments for RouteCache<S> {
    async fn recent(&self, project: &ProjectId) -> Arc<[DeploymentId]> {
        Self::recent(self, project).await
    }

    async fn is_kept(&self, id: &DeploymentId) -> bool {
        Self::is_kept(self, id).await
    }
}
