//! Middleware around the handlers. Their order, outermost first, and its reasons are in `router.rs`.

pub mod client;
pub mod close;
pub mod hosts;
pub mod idempotency;
pub mod in_time;
pub mod panics;
pub mod rate_limit;
pub mod request_id;
pub mod trace;
