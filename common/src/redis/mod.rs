//! Redis: the connection that reconnects by itself, and the scripts that run there.

pub mod budgets;
mod cluster;
pub mod connection;
pub mod counters;
pub mod leases;

pub use ::redis::RedisError;
pub use connection::Redis;
