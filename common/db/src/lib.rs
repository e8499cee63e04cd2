//! All SQL, one file per noun. Nothing outside this folder speaks to Postgres.
//!
//! The shape of every function: connection first, then the proof of access or the plain data; the tenant is in the
//! `WHERE`; a violated constraint comes back as an error of the domain. Queries are checked at compile time.

pub mod ai_keys;
pub mod ai_usage;
pub mod audit;
pub mod certificates;
pub mod code_host_grants;
pub mod deployments;
pub mod device_grants;
pub mod domains;
pub mod env;
pub mod gate_tickets;
pub mod idempotency;
pub mod installations;
pub mod invites;
pub mod job_leases;
pub mod org_icons;
pub mod org_members;
pub mod org_tokens;
pub mod orgs;
pub mod pack_removals;
pub mod projects;
pub mod repo_deploys;
pub mod repo_links;
pub mod route_changes;
pub mod routes;
pub mod sealed;
pub mod sessions;
pub mod shares;
pub mod sign_ins;
pub mod tokens;
pub mod users;
pub mod webhook_deliveries;

use std::time::Duration;

use sqlx::{PgPool, postgres::PgPoolOptions};

/// Longest wait for a connection from the pool; beyond it the caller reports that Postgres is away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// A pool of connections, made when first needed. Fails only when `url` cannot be read.
pub fn connect(postgres: &config::Postgres, url: &str) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new().max_connections(postgres.max_connections).acquire_timeout(ACQUIRE_TIMEOUT).connect_lazy(url)
}

/// Brings the database to this program's version. Safe to call from many processes at once.
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::migrate::MigrateError> {
    sqlx::migrate!("../../migrations").run(pool).await
}

/// Whether Postgres answers.
pub async fn ping(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT 1 AS one").fetch_one(pool).await.map(drop)
}
