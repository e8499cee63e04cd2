//! The SQL of both programs: a folder for each part of the service, a file for each noun, checked at compile time.
//!
//! A function takes a connection, then the proof of access or plain data; the tenant is in the `WHERE`, and a violated
//! constraint becomes an error of the noun. The Rust types of columns are in `sqlx.toml`. Rules without IO are in the
//! crate `domain`. Start with [`permits`] and [`projects`].

pub mod audit;
pub mod billing;
pub mod certificates;
pub mod code_host;
mod connections;
pub mod edges;
pub mod gateway;
pub mod letters;
pub mod migrations;
pub mod names;
pub mod orgs;
pub mod permits;
pub mod pooler;
pub mod projects;
pub mod quotas;
pub mod sign_in;
pub mod stats;
pub mod upkeep;

use sqlx::PgPool;

pub use self::{
    connections::{
        connect, connect_directly, connect_for_leases, connect_once, in_time, is_unavailable, sends_password_elsewhere,
    },
    migrations::{bring_up_to_date, migrate},
};

/// Fails unless Postgres responds: an acquired connection has either been pinged ([`connect`]) or is new.
pub async fn ping(pool: &PgPool) -> Result<(), sqlx::Error> {
    pool.acquire().await.map(drop)
}
