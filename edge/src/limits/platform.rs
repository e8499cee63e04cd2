//! Bounds of the way to admin.

use std::time::Duration;

use fairness::budget::Patience;

/// Longest time to connect to an admin.
pub(crate) const ADMIN_CONNECT: Duration = Duration::from_secs(2);
/// Longest wait for an admin's next bytes of an answer to a GET or HEAD: longer than admin itself works on one, and than the pause
/// between two signs of life of a stream of events.
pub(crate) const ADMIN_ANSWER: Duration = Duration::from_mins(2);
/// Longest wait for an admin's next bytes of any other answer: an upload is judged and unpacked before its answer begins.
pub(crate) const ADMIN_READ: Duration = Duration::from_mins(5);
/// Pause before the admins are asked once more when none of them got the request.
pub(crate) const ADMIN_PAUSE: Duration = Duration::from_millis(100);
/// Admins of which each may have begun to work on a request, at most: one that ends an admin is not carried to all of them.
pub(crate) const ADMIN_ATTEMPTS: usize = 2;
/// Longest wait for an admin to take bytes.
pub(crate) const ADMIN_WRITE: Duration = Duration::from_mins(1);
/// Time for which an idle connection to an admin is kept.
pub(crate) const ADMIN_IDLE: Duration = Duration::from_mins(1);
/// Longest wait for the next bytes of a request that is handed on, and for its sender to take those of the answer.
pub(crate) const CLIENT_STALL: Duration = Duration::from_mins(1);
/// Time without traffic after which the kernel probes a connection to an admin, the pause between probes, and the number of probes
/// after which it gives the connection up: a machine that has gone resets nothing.
pub(crate) const ADMIN_PROBE_AFTER: Duration = Duration::from_secs(4);
pub(crate) const ADMIN_PROBE_EVERY: Duration = Duration::from_secs(2);
pub(crate) const ADMIN_PROBES: usize = 2;
/// Interval at which an admin's health is checked.
pub(crate) const HEALTH_EVERY: Duration = Duration::from_secs(1);
/// Longest time for an admin to answer a health check.
pub(crate) const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// Health checks in a row that an admin leaves unanswered before it counts as hung, and what it is at is given up: some five seconds.
pub(crate) const HUNG_AFTER: u32 = 2;
/// Bytes that are read of the answer to a health check.
pub(crate) const HEALTH_BYTES: usize = 4 * 1024;
/// Longest time until `/health` is answered at the platform's hosts, and the part of it that one admin may take. Admin's own answer
/// takes no time; what calls us allows two seconds.
pub(crate) const HEALTH_ANSWER: Duration = Duration::from_millis(1_700);
pub(crate) const HEALTH_ATTEMPT: Duration = Duration::from_millis(800);
/// Interval at which the names of admins are resolved again.
pub(crate) const RESOLVE_EVERY: Duration = Duration::from_secs(30);
/// Longest time to resolve the name of an admin.
pub(crate) const RESOLVE_WAIT: Duration = Duration::from_secs(5);
/// Addresses of a name at most: each is an admin.
pub(crate) const ADMINS_PER_NAME: usize = 16;
/// Bytes of an admin's refusal that are kept while another admin is asked, and the longest time to read them.
pub(crate) const REFUSAL_BYTES: usize = 16 * 1024;
pub(crate) const REFUSAL_WAIT: Duration = Duration::from_secs(2);
/// Bytes that wait in each direction of the pipe between hyper and pingora-proxy.
pub(crate) const HANDOVER_BYTES: usize = 16 * 1024;
/// Bytes that the kernel holds of admin's answer on a connection, and so the most that pingora-proxy reads in one step, of which it
/// keeps eight.
pub(crate) const ADMIN_RECEIVE_BYTES: usize = 16 * 1024;
/// Bytes that a request which is handed on is charged as until its answer has ended: the pipe, what pingora-proxy reads ahead on both
/// sides of it, and [`RELAYED_BYTES`]. What is read of a body beforehand is charged beside it, as it comes.
pub(crate) const HANDED_BYTES: u64 = 192 * 1024;
/// Longest wait of a request for them.
pub(crate) const HANDED_PATIENCE: Patience = Patience { own: super::FLIGHT_WAIT, others: super::FLIGHT_WAIT };
/// [`HANDED_BYTES`] of a stream of events, of which there is hardly ever anything to be read.
pub(crate) const EVENT_STREAM_BYTES: u64 = 64 * 1024;
/// Bytes that are read of an answer ahead of its client.
pub(crate) const RELAYED_BYTES: usize = 32 * 1024;
/// Bytes of an answer that is read whole, however slowly its client takes it, so that admin and others need not wait for that: if there is
/// memory for it.
pub(crate) const RELAYED_WHOLE_BYTES: u64 = 1024 * 1024;
/// Hundredths of the requests in flight from which on they are taken back from clients that let the others wait.
pub(crate) const PLATFORM_CROWDED_PERCENT: usize = 75;
/// Time for which a client may let a request wait that others need the turn of.
pub(crate) const HOLD_UP: Duration = Duration::from_secs(2);
/// Bytes of a request's body that count as going on.
pub(crate) const HOLD_UP_BYTES: usize = 8 * 1024;
/// Requests for the platform in flight at most, unless `edge.platform_requests` says otherwise. Each takes an open file.
pub(crate) const PLATFORM_REQUESTS: usize = 1_024;
/// The part of the files that the process may open which requests for the platform may take: one in so many.
pub(crate) const PLATFORM_FILES_SHARE: usize = 8;
/// The part of the files that the process may open which requests for the platform never exceed: one in so many.
pub(crate) const PLATFORM_MOST_FILES_SHARE: usize = 2;
/// Requests for the platform in flight of one client, while half of them all are free; its /48 has a quarter of all.
pub(crate) const PLATFORM_REQUESTS_PER_CLIENT: usize = 64;
/// Streams of events of one client, which are requests in flight as well. All clients' together are half of all requests.
pub(crate) const PLATFORM_EVENT_STREAMS_PER_CLIENT: usize = 32;
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
/// Requests for the platform whose bodies are being read. What has come of them is charged like bytes in flight, which run short before
/// there are as many.
pub(crate) const PLATFORM_BODIES: usize = 65_536;
/// The part of the bytes in flight that bodies may take which are being read, or wait for their turn: one in so many. The rest is for
/// the way to admin, so that those that have come go on.
pub(crate) const PLATFORM_BODIES_DIVISOR: u64 = 2;
/// Requests of one client for the platform whose bodies are being read.
pub(crate) const PLATFORM_BODIES_PER_CLIENT: usize = 64;
/// Longest time for those bytes of a body to arrive, as long as admin itself waits for one.
pub(crate) const PLATFORM_BODY: Duration = Duration::from_secs(30);
/// Most bytes that are read of the body of a request that every admin has refused, the longest time to read them, and the longest pause
/// within: most clients read an answer only once they have sent everything.
pub(crate) const REFUSED_BODY_BYTES: u64 = 128 * 1024 * 1024;
pub(crate) const REFUSED_BODY_WAIT: Duration = Duration::from_secs(20);
pub(crate) const REFUSED_BODY_PAUSE: Duration = Duration::from_secs(2);
/// Bytes of the path of an answer of admin that may be kept.
pub(crate) const CACHED_PATH_BYTES: usize = 512;
/// Bytes of the largest body of admin's that is kept: the largest icon fits.
pub(crate) const CACHED_ANSWER_BYTES: usize = 544 * 1024;
/// Bytes of a body that comes together with its head, nearly always: it is kept even where its client wants none of it, or a part.
pub(crate) const CACHED_AT_ONCE_BYTES: usize = 16 * 1024;
/// Time for which the description of the API is kept: admins of two versions may have one each.
pub(crate) const DOCUMENT_LIFE: Duration = Duration::from_secs(10);
/// Bytes that a kept answer takes beside its body, its headers and its name, about.
pub(crate) const CACHED_ENTRY_BYTES: u64 = 1024;
/// Bytes of an ordinary answer of admin's that is kept, about, from which its memory estimates its entries.
pub(crate) const USUAL_CACHED_BYTES: u64 = 8 * 1024;
/// The part of the memory for admin's answers that those may take which are kept, in percent. The rest is for those that are being
/// read, and those that were evicted while they are sent.
pub(crate) const CACHED_KEPT_PERCENT: u64 = 75;
/// Shards of the memory for admin's answers.
pub(crate) const PLATFORM_CACHE_SHARDS: usize = 4;
/// Longest wait for the answer to somebody else's request for the same name, before one of one's own is made. Short, because
/// a large answer comes as slowly as the one who asked for it takes it.
pub(crate) const CACHE_FILL: Duration = Duration::from_secs(5);
