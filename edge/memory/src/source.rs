//! The source of routes: Postgres, or a test's fake.

use std::future::Future;

use db::{edges::routes::AsOf, sign_in::gate_tickets::SiteTicket};
use domain::{DeploymentId, OrgId, ProjectId, Timestamp, UserId, addresses::HostKey, site::Site};
use sqlx::PgPool;

use super::{CacheReadError, OrgMembership};

/// Reads routes, each with the position of the newest change that the reading includes.
pub trait RouteSource: Send + Sync + 'static {
    /// Reads the site at a host. On a retry the last reading was overtaken, so a lagging replica must not be used.
    fn site(
        &self,
        key: &HostKey,
        is_retry: bool,
    ) -> impl Future<Output = Result<AsOf<Option<Site>>, CacheReadError>> + Send;
    /// Reads the user's membership of an org. On a retry the last reading was overtaken, as with [`Self::site`].
    fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        is_retry: bool,
    ) -> impl Future<Output = Result<AsOf<Option<OrgMembership>>, CacheReadError>> + Send;
    /// Removes and returns a ticket into a gated site: only the first caller gets it.
    fn take_ticket(
        &self,
        secret_hash: &[u8; 32],
    ) -> impl Future<Output = Result<Option<SiteTicket>, CacheReadError>> + Send;
    /// Reads the recent deployments of a project. On a retry the last reading was overtaken, as with [`Self::site`].
    fn recent(
        &self,
        project: &ProjectId,
        now: Timestamp,
        is_retry: bool,
    ) -> impl Future<Output = Result<AsOf<Vec<DeploymentId>>, CacheReadError>> + Send;
    /// Reads whether a deployment with files exists.
    fn is_kept(&self, id: &DeploymentId) -> impl Future<Output = Result<bool, CacheReadError>> + Send;
}

/// The database.
#[derive(Debug, Clone)]
pub struct PostgresSource {
    /// Queried first: a nearby replica, if there is one.
    pub near: PgPool,
    /// Queried if the first result was too old.
    pub primary: PgPool,
}

impl RouteSource for PostgresSource {
    async fn site(&self, key: &HostKey, is_retry: bool) -> Result<AsOf<Option<Site>>, CacheReadError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        db::edges::routes::site(pool, key).await.map_err(failed)
    }

    async fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        is_retry: bool,
    ) -> Result<AsOf<Option<OrgMembership>>, CacheReadError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        let AsOf { value, extent } = db::edges::routes::member(pool, org, user).await.map_err(failed)?;
        Ok(AsOf { value: value.map(|gate_version| OrgMembership { gate_version }), extent })
    }

    async fn take_ticket(&self, secret_hash: &[u8; 32]) -> Result<Option<SiteTicket>, CacheReadError> {
        db::sign_in::gate_tickets::take(&self.primary, secret_hash).await.map_err(failed)
    }

    async fn recent(
        &self,
        project: &ProjectId,
        now: Timestamp,
        is_retry: bool,
    ) -> Result<AsOf<Vec<DeploymentId>>, CacheReadError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        db::edges::routes::list_recent(pool, project, now).await.map_err(failed)
    }

    async fn is_kept(&self, id: &DeploymentId) -> Result<bool, CacheReadError> {
        db::edges::routes::has_files(&self.primary, id).await.map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` takes")]
fn failed(error: sqlx::Error) -> CacheReadError {
    CacheReadError::from_database("routes", &error)
}
