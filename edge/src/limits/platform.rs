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
/// reads ahead on both sides of it. As many as a connection has places for fit into what a connection may hold.
pub(crate) const HANDED_BYTES: u64 = 60 * 1024;
/// Requests for the platform in flight. Each takes an open file.
pub(crate) const PLATFORM_REQUESTS: usize = 1_024;
/// The part of the files that the process may open which requests for the platform may take: one in so many.
pub(crate) const PLATFORM_FILES_SHARE: usize = 8;
/// Requests for the platform in flight of one client.
pub(crate) const PLATFORM_REQUESTS_PER_CLIENT: usize = 64;
/// Requests for the platform in flight on one connection.
pub(crate) const PLATFORM_REQUESTS_PER_CONNECTION: usize = 16;
/// Requests for the platform that wait for their turn. Each holds the bytes of its body that have come.
pub(crate) const PLATFORM_WAITING: usize = 512;
/// Requests of one client for the platform that wait for their turn.
pub(crate) const PLATFORM_WAITING_PER_CLIENT: usize = 64;
/// Longest wait of a request for its turn at the platform.
pub(crate) const PLATFORM_WAIT: Duration = Duration::from_secs(2);
/// When a client is asked to come again that found no turn at the platform.
pub(crate) const PLATFORM_RETRY_AFTER: Duration = Duration::from_secs(2);
/// Bytes of a request's body that are read before a connection to an admin is taken: most bodies are smaller.
pub(crate) const PLATFORM_BODY_BYTES: usize = 64 * 1024;
/// Requests for the platform whose bodies are being read: together they hold up to 64 MiB.
pub(crate) const PLATFORM_BODIES: usize = 1_024;
/// Requests of one client for the platform whose bodies are being read.
pub(crate) const PLATFORM_BODIES_PER_CLIENT: usize = 64;
/// Longest time for those bytes of a body to arrive, as long as admin itself waits for one.
pub(crate) const PLATFORM_BODY: Duration = Duration::from_secs(30);
