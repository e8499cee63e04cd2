//! Bounds of the way to admin.

use std::time::Duration;

/// Longest time to connect to an admin.
pub(crate) const ADMIN_CONNECT: Duration = Duration::from_secs(2);
/// Longest wait for an admin's next bytes: an upload is judged and unpacked before its answer begins.
pub(crate) const ADMIN_READ: Duration = Duration::from_mins(5);
/// Longest wait for an admin to take bytes.
pub(crate) const ADMIN_WRITE: Duration = Duration::from_mins(1);
/// Time for which an idle connection to an admin is kept.
pub(crate) const ADMIN_IDLE: Duration = Duration::from_mins(1);
/// Longest wait for the next bytes of a request that is handed on, and for its sender to take those of the answer.
pub(crate) const CLIENT_STALL: Duration = Duration::from_mins(1);
/// Interval at which an admin's health is checked.
pub(crate) const HEALTH_EVERY: Duration = Duration::from_secs(1);
/// Longest time for an admin to answer a health check.
pub(crate) const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// Bytes that wait in each direction of the pipe between hyper and pingora-proxy.
pub(crate) const HANDOVER_BYTES: usize = 16 * 1024;
/// Bytes that a request which is handed on is charged as, for as long as its answer is not read: the pipe, and what pingora-proxy
/// reads ahead on both sides of it.
pub(crate) const HANDED_BYTES: u64 = 128 * 1024;
