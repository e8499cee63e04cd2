//! Redis: the connection that reconnects by itself, the scripts that run there, and the bus of changes.
//!
//! Nothing here is the truth; Postgres is, and what is here can be lost and rebuilt. Start with [`Redis`].
//! What edges may do there is in [`acl`].

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
