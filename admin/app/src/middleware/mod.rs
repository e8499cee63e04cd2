//! Middleware around the handlers. Its order, outermost first, and the reasons for it are in `router.rs`.

pub mod client;
pub mod close;
pub mod hosts;
pub mod idempotency;
pub mod in_time;
pub mod panics;
pub mod rate_limit;
pub mod request_id;
pub mod trace;
