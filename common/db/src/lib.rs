//! The SQL of both programs: a folder for each part of the service, a file for each noun, queries checked at compile time.
//!
//! A function takes a connection first, then the proof of access or the plain data; the tenant is in the `WHERE`, and a
//! violated constraint comes back as an error of the noun. The Rust types of columns are in `sqlx.toml`. Rules without IO
//! are in the crate `domain`. Start with [`permits`] and [`projects`].

pub mod audit;
pub mod certificates;
pub mod code_host;
pub mod edges;
pub mod gateway;
pub mod orgs;
pub mod permits;
pub mod projects;
pub mod quotas;
pub mod sign_in;
pub mod upkeep;

use std::time::Duration;

use sqlx::{PgPool, postgres::PgPoolOptions};

/// Longest wait for a connection from the pool; beyond it the caller reports that Postgres is away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes a pool whose connections are opened when first needed. Fails only when `url` cannot be parsed.
pub fn connect(postgres: &config::Postgres, url: &str) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new().max_connections(postgres.max_connections).acquire_timeout(ACQUIRE_TIMEOUT).connect_lazy(url)
}

/// Applies the migrations that the database lacks. Many processes may call it concurrently.
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::migrate::MigrateError> {
    sqlx::migrate!("../../migrations").run(pool).await
}

/// Fails unless Postgres answers.
pub async fn ping(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT 1 AS one").fetch_one(pool).await.map(drop)
}
