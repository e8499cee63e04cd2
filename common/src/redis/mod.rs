//! Redis: the connection that reconnects by itself, and the scripts that run there.

pub mod connection;
pub mod counters;

pub use ::redis::RedisError;
pub use connection::Redis;
