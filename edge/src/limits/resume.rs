//! Bounds of answers that the gateway keeps for clients who come back.

use std::{ops::RangeInclusive, time::Duration};

/// Characters of an `Idempotency-Key`.
pub(crate) const IDEMPOTENCY_KEY_CHARS: RangeInclusive<usize> = 1..=255;
/// Time for which an answer is kept once it has ended: longer than clients try again by themselves.
pub(crate) const ANSWER_KEPT: Duration = Duration::from_mins(10);
/// Time for which an answer that is being written is claimed in Redis, so that a killed edge claims nothing for long.
pub(crate) const ANSWER_CLAIM: Duration = Duration::from_mins(3);
/// Interval at which the claim of such an answer is extended, which also restores it in a Redis that has lost it.
pub(crate) const ANSWER_CLAIM_EVERY: Duration = Duration::from_mins(1);
/// Interval at which answers are removed that were kept for long enough.
pub(crate) const ANSWERS_LOOK_EVERY: Duration = Duration::from_secs(10);
/// Answers that are kept, as many again as completions may be under way.
pub(crate) const KEPT_ANSWERS: usize = 20_000;
/// Bytes of one answer that is kept: the largest has 32,000 tokens in frames of some 250 bytes.
pub(crate) const KEPT_ANSWER_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes by which the room for an answer grows, at least.
pub(crate) const KEPT_STEP_BYTES: u64 = 16 * 1024;
/// The part of the memory for whole answers that answers for clients who come back may take, of an account's part as well.
pub(crate) const KEPT_PERCENT: u64 = 50;
/// Bytes of an answer that is not kept which are held until its reader takes them.
pub(crate) const UNKEPT_BYTES: usize = 64 * 1024;
/// Bytes of a kept answer that are handed out together.
pub(crate) const KEPT_PIECE_BYTES: usize = 64 * 1024;
/// Looks at an answer that turns out to be somewhere else each time.
pub(crate) const ANSWER_LOOKS: usize = 4;
/// Questions to other edges that wait for their answers.
pub(crate) const EDGE_QUESTIONS: usize = 1_000;
/// Questions of other edges that are being answered.
pub(crate) const EDGE_ANSWERS: usize = 1_000;
/// Wait of an edge that is asked for more of an answer until there is more.
pub(crate) const EDGE_PIECE_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for an edge that was asked. Beyond [`EDGE_PIECE_WAIT`] the message was lost, or the edge is gone.
pub(crate) const EDGE_PATIENCE: Duration = Duration::from_secs(7);
/// Times that another edge is asked the same.
pub(crate) const EDGE_TRIES: usize = 3;
/// Pause before an edge listens to the others again.
pub(crate) const EDGE_LISTEN_RETRY: Duration = Duration::from_millis(250);
/// The `Retry-After` while it is not known whether the edge that has an answer is gone.
pub(crate) const EDGE_RETRY: Duration = Duration::from_secs(5);
