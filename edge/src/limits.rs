//! Every bound of the edge, in one place. A bound that is not here does not exist.

use std::time::Duration;

// ---- Connections

/// Connections at once, if the process may open as many files; beyond it new ones wait in the kernel's queue.
pub(crate) const CONNECTIONS: usize = 20_000;
/// Files kept back from connections: for the database, the store, the upstreams, the logs.
pub(crate) const SPARE_FILES: usize = 128;
/// The kernel's queue of connections that wait to be accepted.
pub(crate) const ACCEPT_QUEUE: u32 = 4_096;
/// Pause after the system refused to accept, so that the loop does not spin while files are short.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// From the accepted connection to the finished TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// For the whole head of a request; also how long a connection may idle before it.
pub(crate) const REQUEST_HEAD: Duration = Duration::from_secs(30);
/// For the whole body of a request to a site: only the password form has one, of a few bytes.
pub(crate) const REQUEST_BODY: Duration = Duration::from_secs(15);
/// Bytes of a body that nobody asked for that are read, so that its sender hears the answer.
pub(crate) const UNWANTED_BODY_BYTES: usize = 1024 * 1024;
/// At the end of a connection whose requests had bodies: how long what still comes is read and thrown away, so that the
/// last answer arrives.
pub(crate) const LINGER: Duration = Duration::from_secs(15);
/// How long a visitor may take nothing of an answer before the connection is cut.
pub(crate) const WRITE_STALL: Duration = Duration::from_secs(30);
/// An HTTP/2 connection that made no request within this is asked to end.
pub(crate) const H2_IDLE: Duration = Duration::from_mins(2);
/// How often an HTTP/2 visitor is asked whether it is still there.
pub(crate) const H2_PING_EVERY: Duration = Duration::from_secs(30);
/// How long it may take to say so.
pub(crate) const H2_PING_WAIT: Duration = Duration::from_secs(15);
/// After this a connection is asked to end, so that none lives for ever.
pub(crate) const CONNECTION_AGE: Duration = Duration::from_hours(1);
/// How long a connection that was asked to end may go on with what it has begun.
pub(crate) const CONNECTION_END: Duration = Duration::from_mins(10);
/// At shutdown: how long requests in flight may go on.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
/// At the start: how long connections wait for admin to be told of this edge.
pub(crate) const READY_WAIT: Duration = Duration::from_secs(2);
/// After the last connection: how long background work may take to end.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(1);

// ---- Requests

/// Bytes of a request's head over HTTP/1.1.
pub(crate) const HEAD_BYTES: usize = 32 * 1024;
/// Fields of a request's head.
pub(crate) const HEAD_FIELDS: usize = 100;
/// The same over HTTP/2, decompressed.
pub(crate) const H2_HEAD_BYTES: u32 = 32 * 1024;
/// Requests at once on an HTTP/2 connection.
pub(crate) const H2_STREAMS: u32 = 128;
/// Bytes a visitor may send on one stream before we read them.
pub(crate) const H2_STREAM_WINDOW: u32 = 64 * 1024;
/// The same for the connection.
pub(crate) const H2_CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of a frame that we accept.
pub(crate) const H2_FRAME_BYTES: u32 = 16 * 1024;
/// Bytes of an answer that wait in one stream.
pub(crate) const H2_SEND_BUFFER: usize = 256 * 1024;
/// Bytes of frames that are gathered before they are sent: four full TLS records, and what rustls takes at once.
pub(crate) const GATHERED_BYTES: usize = 64 * 1024;
/// Streams that a visitor may reset before we took them up (rapid reset), and that it may make us reset.
pub(crate) const H2_RESETS: usize = 32;
/// Longest host name (RFC 1035).
pub(crate) const HOST_BYTES: usize = 253;

// ---- Routes

/// Hosts remembered with their site.
pub(crate) const REMEMBERED_SITES: usize = 250_000;
/// Hosts remembered to have none; apart from the sites, so that a flood of made-up hosts evicts none of them.
pub(crate) const REMEMBERED_ABSENCES: u64 = 20_000;
/// Places of people in organizations that are remembered, and the lack of them: for people who were let in once only.
pub(crate) const REMEMBERED_MEMBERSHIPS: u64 = 100_000;
/// Projects whose recent deployments are remembered.
pub(crate) const REMEMBERED_RECENTS: u64 = 10_000;
/// How long those are: they also lapse by time alone.
pub(crate) const RECENTS_LIFE: Duration = Duration::from_mins(5);
/// Routes read from Postgres at once.
pub(crate) const ROUTE_READS: usize = 64;
/// Longest wait for a route: for its turn and its read.
pub(crate) const ROUTE_WAIT: Duration = Duration::from_secs(5);
/// After a failed read, how long those behind it are refused without another try.
pub(crate) const ROUTE_RETRY_AFTER: Duration = Duration::from_millis(500);
/// Reads of one route that may each be overtaken by a change before the visitor is asked to come again.
pub(crate) const ROUTE_READ_TRIES: usize = 5;
/// Changes read at once when some were missed; with more than this, everything is forgotten.
pub(crate) const MISSED_CHANGES: i64 = 1_000;
/// How often Postgres is asked for missed changes while Redis tells us of them.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same while Redis is away.
pub(crate) const LOOK_EVERY_ALONE: Duration = Duration::from_secs(1);
/// How long Postgres may take to say so.
pub(crate) const LOOK_WAIT: Duration = Duration::from_secs(1);
/// How long routes are served that neither Postgres nor Redis could confirm.
pub(crate) const STALE: Duration = Duration::from_hours(24);

// ---- Certificates

/// Names remembered with their certificate.
pub(crate) const REMEMBERED_CERTIFICATES: u64 = 100_000;
/// Names remembered to have none.
pub(crate) const REMEMBERED_NO_CERTIFICATES: u64 = 20_000;
/// How long they are: a certificate that was stored a moment ago is asked for by then. Short, because what it saves is the
/// repetition of one name; names made up one after the other are read at [`CERTIFICATE_READS`] anyway.
pub(crate) const NO_CERTIFICATE_LIFE: Duration = Duration::from_secs(3);
/// Certificates read from Postgres at once; handshakes beyond it wait for their turn, as long as [`HANDSHAKE`].
pub(crate) const CERTIFICATE_READS: usize = 8;
/// How often replaced certificates are looked for.
pub(crate) const CERTIFICATES_EVERY: Duration = Duration::from_secs(30);
/// How far the clocks of this machine and of the one that stored a certificate may differ.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_mins(10);
/// Hours for which a session ticket resumes.
pub(crate) const TICKET_HOURS: u64 = 6;

// ---- The way to admin

/// For connecting to an admin.
pub(crate) const ADMIN_CONNECT: Duration = Duration::from_secs(2);
/// For an admin's next bytes: an upload is judged and unpacked before its answer begins.
pub(crate) const ADMIN_READ: Duration = Duration::from_mins(5);
/// For an admin to take bytes.
pub(crate) const ADMIN_WRITE: Duration = Duration::from_mins(1);
/// How long an idle connection to an admin is kept.
pub(crate) const ADMIN_IDLE: Duration = Duration::from_mins(1);
/// For a client's next bytes of a request, and to take those of an answer.
pub(crate) const CLIENT_STALL: Duration = Duration::from_mins(1);
/// How often an admin's health is looked at.
pub(crate) const HEALTH_EVERY: Duration = Duration::from_secs(1);
/// How long it may take to answer.
pub(crate) const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// Bytes between the two halves of a request that came over plain HTTP to the proxy.
pub(crate) const HANDOVER_BYTES: usize = 64 * 1024;

// ---- Sites

/// Longest path and query of a request to a site.
pub(crate) const TARGET_BYTES: usize = 8 * 1024;
/// Memory for bodies, over all sites.
pub(crate) const BODY_CACHE_BYTES: u64 = 256 * 1024 * 1024;
/// Largest body that is kept in memory; larger ones are read while they are sent.
pub(crate) const CACHED_BODY_BYTES: u64 = 4 * 1024 * 1024;
/// Memory for manifests, over all sites.
pub(crate) const MANIFEST_CACHE_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of one read of a body that is read while it is sent.
pub(crate) const READ_BYTES: u64 = 256 * 1024;
/// Parts of the memory for bodies, and of that for manifests: readers of different parts never meet. Few, so that the
/// largest body is small in each.
pub(crate) const CACHE_SHARDS: usize = 8;
/// Bytes of an ordinary body, about: how many the memory should expect.
pub(crate) const USUAL_BODY_BYTES: u64 = 16 * 1024;
/// Bytes of an ordinary manifest, about.
pub(crate) const USUAL_MANIFEST_BYTES: u64 = 128 * 1024;
/// Reads of manifests and bodies into memory at once: together no more than the memory for bodies.
pub(crate) const LOADS_AT_ONCE: usize = 64;
/// Longest wait for one read from the store.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(10);
/// Parts that a request may ask for; beyond it the whole file is sent.
pub(crate) const RANGES: usize = 16;

// ---- Gates

/// Largest body of the password form.
pub(crate) const GATE_FORM_BYTES: usize = 4 * 1024;
/// How long a visitor who gave the password is not asked again.
pub(crate) const GATE_COOKIE_LIFE: Duration = Duration::from_hours(7 * 24);
/// How long a member is not asked for a ticket again. Whether they still are one is asked at every request.
pub(crate) const MEMBER_COOKIE_LIFE: Duration = Duration::from_hours(24);
/// How long a visitor may take over signing in at the console.
pub(crate) const VISITOR_COOKIE_LIFE: Duration = Duration::from_hours(1);
/// Longest path that a visitor is led back to after signing in.
pub(crate) const GATE_RETURN_BYTES: usize = 2 * 1024;
/// Tickets looked up at once.
pub(crate) const TICKETS_AT_ONCE: usize = 16;
/// Longest wait for a ticket to be looked up.
pub(crate) const TICKET_WAIT: Duration = Duration::from_secs(3);
/// Guesses at one site's password that one client has a minute.
pub(crate) const GUESSES_PER_MINUTE: u32 = 10;
/// Clients whose guesses are counted; while there are more, new ones have to wait.
pub(crate) const GUESSERS: usize = 100_000;
/// Password hashes computed at once: each takes 19 MiB and tens of milliseconds of a core.
pub(crate) const HASHES_AT_ONCE: usize = 4;
/// Longest wait for a turn to hash.
pub(crate) const HASH_WAIT: Duration = Duration::from_secs(2);
/// `Authorization: Basic` credentials that are remembered to be right.
pub(crate) const VERIFIED_CREDENTIALS: u64 = 10_000;
/// How long they are.
pub(crate) const VERIFIED_LIFE: Duration = Duration::from_mins(5);
/// Longest `Authorization` header that is looked at.
pub(crate) const CREDENTIALS_BYTES: usize = 1024;

// ---- Keys and the meter of the gateway

/// Keys remembered with their account.
pub(crate) const REMEMBERED_KEYS: u64 = 100_000;
/// Secrets remembered to be nobody's; apart from the keys, so that a flood of made-up ones evicts none of them.
pub(crate) const REMEMBERED_NO_KEYS: u64 = 20_000;
/// Keys read from Postgres at once.
pub(crate) const KEY_READS: usize = 32;
/// Longest wait for a key: for its turn and its read.
pub(crate) const KEY_WAIT: Duration = Duration::from_secs(3);
/// After a failed read, how long those behind it are refused without another try.
pub(crate) const KEY_RETRY_AFTER: Duration = Duration::from_millis(500);
/// Reads of one key that may each be overtaken by a change before the client is asked to come again.
pub(crate) const KEY_READ_TRIES: usize = 5;
/// Completions that this edge answers for at once: under way, or ended and not yet in Postgres. Beyond it nothing more is
/// admitted. Each takes about a kilobyte of memory and of the journal.
pub(crate) const UNSETTLED: usize = 100_000;
/// Tokens of one completion that are believed: a provider that claims more is believed so many.
pub(crate) const BELIEVED_TOKENS: u64 = 100_000_000;
/// Sums of accounts read from Postgres at once, after Redis has lost them.
pub(crate) const SPENT_READS: usize = 16;
/// Reads of one account's sums that may each be overtaken by a write before the client is asked to come again.
pub(crate) const SPENT_READ_TRIES: usize = 3;
/// Longest wait for them: for a turn, for every edge to have told an emptied Redis what it answers for, and for the read.
pub(crate) const SPENT_WAIT: Duration = Duration::from_secs(5);
/// How long after Redis was found empty nothing is admitted: every edge then has told it what it answers for.
pub(crate) const EMPTY_REDIS_PAUSE: Duration = Duration::from_millis(1_500);
/// How long after Redis was found to have begun anew it is asked what it takes to be under way: longer than an admission
/// waits for its answer.
pub(crate) const DISOWN_AFTER: Duration = Duration::from_secs(3);
/// When a client is asked to come again while the meter cannot admit anybody.
pub(crate) const METER_RETRY_AFTER: Duration = Duration::from_secs(2);
/// How often usage is written to Postgres.
pub(crate) const USAGE_EVERY: Duration = Duration::from_millis(200);
/// The same while Postgres refuses it.
pub(crate) const USAGE_RETRY: Duration = Duration::from_secs(1);
/// Rows of one write.
pub(crate) const USAGE_BATCH: usize = 500;
/// How long Postgres may take over one.
pub(crate) const USAGE_WAIT: Duration = Duration::from_secs(10);
/// How long an admission that would be refused waits for Redis to be told what has just ended.
pub(crate) const TELL_WAIT: Duration = Duration::from_millis(100);
/// How often Redis is told what has ended, unless it is more than was reserved.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(5);
/// What Redis is told at once.
pub(crate) const REDIS_BATCH: usize = 256;
/// The size in bytes of the journal on disk. Beyond half of it no completion is admitted; the rest is for the ends of those
/// that were.
pub(crate) const JOURNAL_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of a segment of the journal, after which a new one begins.
pub(crate) const JOURNAL_SEGMENT: u64 = 4 * 1024 * 1024;
/// How often the journals of edges that have died are looked for.
pub(crate) const ADOPT_EVERY: Duration = Duration::from_secs(5);
/// How long the meter may take, at the end, to bring to Postgres what it has.
pub(crate) const METER_LAST_WORD: Duration = Duration::from_millis(800);
// ---- The gateway

/// Largest body of a request for a completion.
pub(crate) const COMPLETION_BYTES: usize = 64 * 1024;
/// For the whole of it to arrive.
pub(crate) const COMPLETION_BODY: Duration = Duration::from_secs(30);
/// Choices (`n`) that a request may ask for.
pub(crate) const CHOICES: u64 = 16;
/// Completions under way at once.
pub(crate) const EXCHANGES: usize = 10_000;
/// When those beyond it may come again.
pub(crate) const BUSY_RETRY: Duration = Duration::from_secs(1);
/// When a client may come again whose key could not be looked up.
pub(crate) const KEYS_RETRY: Duration = Duration::from_secs(1);
/// Completions that are read to their end at once although their clients have gone; others are settled by estimate.
pub(crate) const DRAINS: usize = 1_000;
/// How long each may take.
pub(crate) const DRAIN_WAIT: Duration = Duration::from_mins(2);
/// For connecting to a provider, its handshake included.
pub(crate) const PROVIDER_CONNECT: Duration = Duration::from_secs(5);
/// Silence after which a connection to a provider is probed.
pub(crate) const PROVIDER_KEEPALIVE: Duration = Duration::from_secs(30);
/// How long an idle connection to a provider is kept: less than servers usually do.
pub(crate) const PROVIDER_IDLE: Duration = Duration::from_secs(30);
/// Idle connections kept to one provider.
pub(crate) const PROVIDER_KEPT: usize = 1_000;
/// Fields of the head of a provider's answer.
pub(crate) const PROVIDER_HEAD_FIELDS: usize = 100;
/// Bytes that a connection to a provider reads ahead, the head of an answer included.
pub(crate) const PROVIDER_BUFFER: usize = 32 * 1024;
/// Pieces of a stream that come sooner after each other are read, and passed on, together.
pub(crate) const GATHER: Duration = Duration::from_millis(1);
/// So many completions are under way before that is done: an edge that is idle gains nothing by waiting.
pub(crate) const GATHER_FROM: usize = 8;
/// Bytes of a stream that are passed on at once.
pub(crate) const GATHERED_PIECE: usize = 16 * 1024;
/// For the whole of an answer once it has begun.
pub(crate) const EXCHANGE: Duration = Duration::from_mins(10);
/// Bytes of a completion, streamed or not: hundreds of times what the largest has.
pub(crate) const ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of one event of a stream.
pub(crate) const FRAME_BYTES: usize = 1024 * 1024;
/// Bytes of a compressed answer that are unfolded at once, to at most a thousand times as many.
pub(crate) const ZIPPED_PIECE_BYTES: usize = 1024;
/// Bytes of a provider's error that are read, unseen, to keep the connection.
pub(crate) const PROVIDER_ERROR_BYTES: usize = 64 * 1024;
/// How long the end of an answer is waited for once everything was said.
pub(crate) const STREAM_END: Duration = Duration::from_secs(1);
/// How long the error frame of a failed stream has to leave before the connection is broken off.
pub(crate) const ABORT_GRACE: Duration = Duration::from_millis(100);
/// Longest `Retry-After` of a provider that is passed on.
pub(crate) const PROVIDER_RETRY_AFTER: Duration = Duration::from_mins(2);
/// Bytes by which what we write is longer than what we read, mostly.
pub(crate) const ADDED_BYTES: usize = 128;
/// Characters of a client's own words in a message.
pub(crate) const QUOTED_CHARS: usize = 100;
/// Bytes of `id` or `created` that are repeated in a frame of our own.
pub(crate) const IDENTITY_BYTES: usize = 256;
/// Tokens that an image has at most, when it is only named.
pub(crate) const IMAGE_TOKENS: u64 = 2_000;
/// Bytes of text that make a token, usually.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;
/// Bytes of a choice that are not the model's words.
pub(crate) const CHOICE_BYTES: usize = 64;
/// Tokens beyond which a provider's report is not believed.
pub(crate) const BELIEVABLE_TOKENS: u64 = 10_000_000;
