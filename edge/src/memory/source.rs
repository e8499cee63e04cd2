//! The source of routes: Postgres, or a test's fake.

use std::future::Future;

use db::{edges::routes::AsOf, sign_in::gate_tickets::Ticket};
use domain::{DeploymentId, OrgId, ProjectId, Timestamp, UserId, addresses::HostKey, site::Site};
use sqlx::PgPool;

use super::{Membership, RecallError};

/// Reads routes, each with the position of the newest change that the reading includes.
pub trait Source: Send + Sync + 'static {
    /// Reads the site at a host. On a retry the last reading was overtaken, so a lagging replica must not be used.
    fn site(
        &self,
        key: &HostKey,
        is_retry: bool,
    ) -> impl Future<Output = Result<AsOf<Option<Site>>, RecallError>> + Send;
    /// Reads the user's membership of an org. On a retry the last reading was overtaken, as with [`Self::site`].
    fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        is_retry: bool,
    ) -> impl Future<Output = Result<AsOf<Option<Membership>>, RecallError>> + Send;
    /// Removes and returns a ticket into a gated site: only the first caller gets it.
    fn take_ticket(&self, secret_hash: &[u8; 32]) -> impl Future<Output = Result<Option<Ticket>, RecallError>> + Send;
    /// Reads the recent deployments of a project. On a retry the last reading was overtaken, as with [`Self::site`].
    fn recent(
        &self,
        project: &ProjectId,
        now: Timestamp,
        is_retry: bool,
    ) -> impl Future<Output = Result<AsOf<Vec<DeploymentId>>, RecallError>> + Send;
    /// Reads whether a deployment with files exists.
    fn is_kept(&self, id: &DeploymentId) -> impl Future<Output = Result<bool, RecallError>> + Send;
}

/// The database.
#[derive(Debug, Clone)]
pub struct Postgres {
    /// Queried first: a nearby replica, if there is one.
    pub near: PgPool,
    /// Queried if the first result was too old.
    pub primary: PgPool,
}

impl Source for Postgres {
    async fn site(&self, key: &HostKey, is_retry: bool) -> Result<AsOf<Option<Site>>, RecallError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        db::edges::routes::site(pool, key).await.map_err(failed)
    }

    async fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        is_retry: bool,
    ) -> Result<AsOf<Option<Membership>>, RecallError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        let AsOf { value, extent } = db::edges::routes::member(pool, org, user).await.map_err(failed)?;
        Ok(AsOf { value: value.map(|gate_version| Membership { gate_version }), extent })
    }

    async fn take_ticket(&self, secret_hash: &[u8; 32]) -> Result<Option<Ticket>, RecallError> {
        db::sign_in::gate_tickets::take(&self.primary, secret_hash).await.map_err(failed)
    }

    async fn recent(
        &self,
        project: &ProjectId,
        now: Timestamp,
        is_retry: bool,
    ) -> Result<AsOf<Vec<DeploymentId>>, RecallError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        db::edges::routes::recent(pool, project, now).await.map_err(failed)
    }

    async fn is_kept(&self, id: &DeploymentId) -> Result<bool, RecallError> {
        db::edges::routes::has_files(&self.primary, id).await.map_err(failed)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` takes")]
fn failed(error: sqlx::Error) -> RecallError {
    RecallError::database("routes", &error)
}
