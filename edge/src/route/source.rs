//! Where routes are read from: Postgres, or a test's fake.

use std::future::Future;

use db::{gate_tickets::Ticket, routes::AsOf};
use domain::{DeploymentId, OrgId, ProjectId, Timestamp, UserId, addresses::HostKey, site::Site};
use sqlx::PgPool;

use super::{Membership, RouteError};

/// Reads routes, each with the `seq` of the newest change that the reading includes.
pub trait Source: Send + Sync + 'static {
    /// The site at a host. `again`: the last reading was overtaken, so a copy that lags behind will not do.
    fn site(&self, key: &HostKey, again: bool) -> impl Future<Output = Result<AsOf<Option<Site>>, RouteError>> + Send;
    /// The user's place in an org; `again` as above.
    fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        again: bool,
    ) -> impl Future<Output = Result<AsOf<Option<Membership>>, RouteError>> + Send;
    /// Takes a ticket into a gated site out: whoever asks first has it.
    fn take_ticket(&self, secret_hash: &[u8; 32]) -> impl Future<Output = Result<Option<Ticket>, RouteError>> + Send;
    /// The recent deployments of a project.
    fn recent(
        &self,
        project: &ProjectId,
        now: Timestamp,
    ) -> impl Future<Output = Result<AsOf<Vec<DeploymentId>>, RouteError>> + Send;
}

/// The database.
#[derive(Debug, Clone)]
pub struct Postgres {
    /// Asked first: a replica nearby, if there is one.
    pub near: PgPool,
    /// Asked when the first answer was too old.
    pub primary: PgPool,
}

impl Source for Postgres {
    async fn site(&self, key: &HostKey, again: bool) -> Result<AsOf<Option<Site>>, RouteError> {
        let pool = if again { &self.primary } else { &self.near };
        Ok(db::routes::site(pool, key).await?)
    }

    async fn membership(
        &self,
        org: &OrgId,
        user: &UserId,
        again: bool,
    ) -> Result<AsOf<Option<Membership>>, RouteError> {
        let pool = if again { &self.primary } else { &self.near };
        let AsOf { value, seq } = db::routes::member(pool, org, user).await?;
        Ok(AsOf { value: value.map(|gate_version| Membership { gate_version }), seq })
    }

    async fn take_ticket(&self, secret_hash: &[u8; 32]) -> Result<Option<Ticket>, RouteError> {
        Ok(db::gate_tickets::take(&self.primary, secret_hash).await?)
    }

    async fn recent(&self, project: &ProjectId, now: Timestamp) -> Result<AsOf<Vec<DeploymentId>>, RouteError> {
        Ok(db::routes::recent(&self.near, project, now).await?)
    }
}

impl From<sqlx::Error> for RouteError {
    fn from(error: sqlx::Error) -> Self {
        telemetry::metrics::postgres_failed("routes");
        Self::Unreadable(error.to_string().into())
    }
}
