//! Limits of the proxy to admin.

use std::time::Duration;

use fairness::budget::WaitLimits;

/// Maximum time to connect to an admin.
pub const ADMIN_CONNECT: Duration = Duration::from_secs(2);
/// Maximum wait for an admin's next bytes of a response to a GET or HEAD: longer than admin itself works on one, and
/// than the interval between an event stream's keep-alives.
pub const ADMIN_ANSWER: Duration = Duration::from_mins(2);
/// Maximum wait for the next bytes of any other response: an upload is validated and unpacked before it starts.
pub const ADMIN_READ: Duration = Duration::from_mins(5);
/// Pause before all admins are retried if none of them received the request.
pub const ADMIN_PAUSE: Duration = Duration::from_millis(100);
/// Maximum of admins that may have started to process a request, so that one that crashes admins does not reach all.
pub const ADMIN_ATTEMPTS: usize = 2;
/// Maximum wait for an admin to accept bytes.
pub const ADMIN_WRITE: Duration = Duration::from_mins(1);
/// Time for which an idle connection to an admin is kept.
pub const ADMIN_IDLE: Duration = Duration::from_mins(1);
/// Maximum wait for the next bytes of a proxied request, and for its sender to read those of the response.
pub const CLIENT_STALL: Duration = Duration::from_mins(1);
/// Idle time after which the kernel probes a connection to an admin, the interval between probes, and the number of
/// probes after which it closes the connection: a machine that is down resets nothing.
pub const ADMIN_PROBE_AFTER: Duration = Duration::from_secs(4);
/// Interval between the kernel's probes of an idle connection to an admin.
pub const ADMIN_PROBE_EVERY: Duration = Duration::from_secs(2);
/// Unanswered probes after which the kernel closes a connection to an admin.
pub const ADMIN_PROBES: usize = 2;
/// Interval at which an admin's health is checked.
pub const HEALTH_EVERY: Duration = Duration::from_secs(1);
/// Maximum time for an admin to answer a health check.
pub const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// Consecutive unanswered health checks after which an admin counts as hung and is given up: some five seconds.
pub const HUNG_AFTER: u32 = 2;
/// Bytes that are read of the response to a health check.
pub const HEALTH_BYTES: usize = 4 * 1024;
/// Maximum time to answer `/health` at the platform's hosts, and the part of it that one admin may take. Admin's own
/// response takes no time; the callers allow two seconds.
pub const HEALTH_ANSWER: Duration = Duration::from_millis(1_700);
/// Maximum time for one admin to answer a request for `/health`.
pub const HEALTH_ATTEMPT: Duration = Duration::from_millis(800);
/// Interval at which the names of admins are resolved again.
pub const RESOLVE_EVERY: Duration = Duration::from_secs(30);
/// Maximum time to resolve the name of an admin.
pub const RESOLVE_WAIT: Duration = Duration::from_secs(5);
/// Maximum of addresses of a name, each of which is an admin.
pub const ADMINS_PER_NAME: usize = 16;
/// Bytes of an admin's refusal that are kept while another admin is tried, and the maximum time to read them.
pub const REFUSAL_BYTES: usize = 16 * 1024;
/// Maximum time to read the [`REFUSAL_BYTES`] of an admin's refusal.
pub const REFUSAL_WAIT: Duration = Duration::from_secs(2);
/// Bytes buffered in each direction of the pipe between hyper and pingora-proxy.
pub const HANDOVER_BYTES: usize = 16 * 1024;
/// Bytes of admin's response that the kernel buffers, and so a read of pingora-proxy, which keeps eight of them.
pub const ADMIN_RECEIVE_BYTES: usize = 16 * 1024;
/// Bytes charged for a proxied request until its response begins: the pipe, what pingora-proxy buffers on both sides
/// of it, and [`RELAYED_BYTES`]. Body bytes that are read beforehand are charged in addition, as they arrive. A response
/// that is not read whole keeps them until it has ended.
pub const HANDED_BYTES: u64 = 192 * 1024;
/// Maximum wait of a request for [`HANDED_BYTES`].
pub const HANDED_PATIENCE: WaitLimits = WaitLimits { own: super::FLIGHT_WAIT, others: super::FLIGHT_WAIT };
/// Bytes that a proxied request takes besides the bytes of a response that is read whole: connections, heads, and the
/// buffers that are not full.
pub const PROXIED_BYTES: u64 = 64 * 1024;
/// [`HANDED_BYTES`] of an event stream, which hardly ever has anything to read.
pub const EVENT_STREAM_BYTES: u64 = 64 * 1024;
/// Bytes of a response that are buffered ahead of its client.
pub const RELAYED_BYTES: usize = 32 * 1024;
/// Bytes of a response that is buffered whole, however slowly its client reads it, so that admin and others need not
/// wait for the client, provided that there is memory.
pub const RELAYED_WHOLE_BYTES: u64 = 1024 * 1024;
/// Percentage of the requests in flight from which turns are revoked from clients that hold up others.
pub const PLATFORM_CROWDED_PERCENT: usize = 75;
/// Time for which a client may stall a request whose turn others need.
pub const CLIENT_STALL_GRACE: Duration = Duration::from_secs(2);
/// Bytes of a request's body that count as progress.
pub const HOLD_UP_BYTES: usize = 8 * 1024;
/// Maximum of platform requests in flight, unless `edge.platform_requests` is set. Each takes an open file.
pub const PLATFORM_REQUESTS: usize = 1_024;
/// Divisor of the open file limit for the default of platform requests in flight.
pub const PLATFORM_FILES_SHARE: usize = 8;
/// Divisor of the open file limit for the most platform requests that may ever be in flight.
pub const PLATFORM_MOST_FILES_SHARE: usize = 2;
/// Platform requests of one client in flight while half of all are free; its /48 has a quarter of all.
pub const PLATFORM_REQUESTS_PER_CLIENT: usize = 64;
/// Event streams of one client, which count as requests in flight. Those of all clients are at most half of them.
pub const PLATFORM_EVENT_STREAMS_PER_CLIENT: usize = 32;
/// Platform requests in flight on one connection.
pub const PLATFORM_REQUESTS_PER_CONNECTION: usize = 16;
/// Platform requests waiting for their turn. Each holds the bytes of its body that have arrived.
pub const PLATFORM_WAITING: usize = 512;
/// Platform requests of one client waiting for their turn.
pub const PLATFORM_WAITING_PER_CLIENT: usize = 64;
/// Maximum wait of a platform request for its turn.
pub const PLATFORM_WAIT: Duration = Duration::from_secs(2);
/// The `Retry-After` of a platform request that got no turn.
pub const PLATFORM_RETRY_AFTER: Duration = Duration::from_secs(2);
/// Bytes of a request's body that are read before a connection to an admin is taken: most bodies are smaller.
pub const PLATFORM_BODY_BYTES: usize = 64 * 1024;
/// Platform requests whose bodies are being read. The bytes in flight that they are charged to run out earlier.
pub const PLATFORM_BODIES: usize = 65_536;
/// Divisor of the bytes in flight for bodies being read or waiting; the rest lets received ones proceed to admin.
pub const PLATFORM_BODIES_DIVISOR: u64 = 2;
/// Platform requests of one client whose bodies are being read.
pub const PLATFORM_BODIES_PER_CLIENT: usize = 64;
/// Maximum time for [`PLATFORM_BODY_BYTES`] to arrive, as long as admin itself waits for a body.
pub const PLATFORM_BODY: Duration = Duration::from_secs(30);
/// Maximum bytes that are read of the body of a request that every admin has refused, the maximum time to read them,
/// and the maximum pause within: most clients read a response only once they have sent everything.
pub const REFUSED_BODY_BYTES: u64 = 128 * 1024 * 1024;
/// Maximum time to read the body of a request that every admin has refused.
pub const REFUSED_BODY_WAIT: Duration = Duration::from_secs(20);
/// Maximum pause while the body of a request that every admin has refused is read.
pub const REFUSED_BODY_PAUSE: Duration = Duration::from_secs(2);
/// Bytes of the path of a response of admin that may be cached.
pub const CACHED_PATH_BYTES: usize = 512;
/// Bytes of the largest body of admin's that is cached: the largest icon fits.
pub const CACHED_ANSWER_BYTES: usize = 544 * 1024;
/// Bytes of a body that nearly always arrives with its head: it is cached even if its client wants none or a part.
pub const CACHED_SMALL_BYTES: usize = 16 * 1024;
/// Time for which the API description is cached: admins of two versions may have one each.
pub const DOCUMENT_LIFE: Duration = Duration::from_secs(10);
/// Approximate bytes of a cached response beyond its body, its headers and its name.
pub const CACHED_ENTRY_BYTES: u64 = 1024;
/// Approximate bytes of a typical cached response of admin, from which the cache estimates its number of entries.
pub const USUAL_CACHED_BYTES: u64 = 8 * 1024;
/// Percentage of the memory for admin's responses for cached ones. The rest is for those being read, or just evicted.
pub const CACHED_KEPT_PERCENT: u64 = 75;
/// Shards of the cache of admin's responses.
pub const PLATFORM_CACHE_SHARDS: usize = 4;
/// Maximum wait for the response to another client's request for the same name before sending an own request. Short,
/// because a large response arrives as slowly as that client reads it.
pub const CACHE_FILL: Duration = Duration::from_secs(5);
