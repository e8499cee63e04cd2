//! Where routes are read from: Postgres, or a test's fake.

use std::future::Future;

use common::{
    db::{self, routes::AsOf},
    domain::{DeploymentId, ProjectId, Timestamp},
    routes::{HostKey, Site},
};
use sqlx::PgPool;

use super::RouteError;

/// Reads routes, each with the `seq` of the newest change that the reading includes.
pub trait Source: Send + Sync + 'static {
    /// The site at a host. `again`: the last reading was overtaken, so a copy that lags behind will not do.
    fn site(&self, key: &HostKey, again: bool) -> impl Future<Output = Result<AsOf<Option<Site>>, RouteError>> + Send;
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

    async fn recent(&self, project: &ProjectId, now: Timestamp) -> Result<AsOf<Vec<DeploymentId>>, RouteError> {
        Ok(db::routes::recent(&self.near, project, now).await?)
    }
}

impl From<sqlx::Error> for RouteError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unreadable(error.to_string().into())
    }
}
