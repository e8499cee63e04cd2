//! Redis: the self-reconnecting connection, the scripts, and the bus of changes.
//!
//! Redis is never the source of truth: its contents can be lost and rebuilt from Postgres. Start with [`Redis`]. The
//! rights of edges are in [`acl`].

pub mod acl;
pub mod answers;
pub mod budgets;
pub mod bus;
mod cluster;
pub mod connection;
pub mod counters;
pub mod events;
mod eviction;
pub mod guesses;
pub mod leases;
mod name;
pub mod reports;
mod server;
mod silence;
pub mod traffic;

pub use ::redis::RedisError;
pub use connection::Redis;
pub use server::Persistence;
