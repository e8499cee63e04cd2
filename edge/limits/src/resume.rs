//! Limits of responses that the gateway stores for clients that reconnect.

use std::{ops::RangeInclusive, time::Duration};

/// Characters of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_CHARS: RangeInclusive<usize> = 1..=255;
/// Time for which an ended response is stored: longer than clients retry by themselves.
pub const ANSWER_KEPT: Duration = Duration::from_mins(10);
/// Time for which a response in progress is claimed in Redis, so that a killed edge claims nothing for long.
pub const ANSWER_CLAIM: Duration = Duration::from_mins(3);
/// Interval at which such a claim is extended, which also restores it in a Redis that has lost it.
pub const ANSWER_CLAIM_EVERY: Duration = Duration::from_mins(1);
/// Interval at which expired responses are removed.
pub const EXPIRED_CHECK_EVERY: Duration = Duration::from_secs(10);
/// Stored responses, twice as many as completions may be in flight.
pub const KEPT_ANSWERS: usize = 20_000;
/// Bytes of one stored response: the largest has 32,000 tokens in frames of some 250 bytes.
pub const KEPT_ANSWER_BYTES: u64 = 8 * 1024 * 1024;
/// Minimum bytes by which the reservation for a stored response grows.
pub const KEPT_STEP_BYTES: u64 = 16 * 1024;
/// Percentage of the memory for non-streaming responses that stored responses may take, also of an account's part.
pub const KEPT_PERCENT: u64 = 50;
/// Bytes of a response that is not stored which are buffered until its reader takes them.
pub const UNKEPT_BYTES: usize = 64 * 1024;
/// Bytes of a stored response that are handed out together.
pub const KEPT_PIECE_BYTES: usize = 64 * 1024;
/// Lookups of a response that each time turns out to be elsewhere.
pub const ANSWER_LOOKS: usize = 4;
/// Pending queries to other edges.
pub const EDGE_QUESTIONS: usize = 1_000;
/// Queries of other edges that are being answered.
pub const EDGE_ANSWERS: usize = 1_000;
/// Time for which an edge that is queried for more of a response waits until there is more.
pub const EDGE_PIECE_WAIT: Duration = Duration::from_secs(5);
/// Maximum wait for a queried edge. Beyond [`EDGE_PIECE_WAIT`] the message was lost, or the edge is down.
pub const EDGE_QUERY_TIMEOUT: Duration = Duration::from_secs(7);
/// Attempts of the same query to another edge.
pub const EDGE_TRIES: usize = 3;
/// Pause before an edge resubscribes to the others.
pub const EDGE_LISTEN_RETRY: Duration = Duration::from_millis(250);
/// The `Retry-After` while it is unknown whether the edge that has a response is down.
pub const EDGE_RETRY: Duration = Duration::from_secs(5);
