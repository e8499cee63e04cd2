//! Bounds of the gateway's exchanges.

use std::time::Duration;

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
