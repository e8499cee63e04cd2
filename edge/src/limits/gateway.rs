//! Bounds of the gateway's exchanges.

use std::time::Duration;

/// Bytes of a body up to which it is drawn at its connection, and written anew for the provider: the contract's largest.
pub(crate) const SMALL_BODY_BYTES: usize = 64 * 1024;
/// Longest time for the whole of a small body to arrive.
pub(crate) const COMPLETION_BODY: Duration = Duration::from_secs(30);
/// Bytes a second that are expected of what a body has beyond [`SMALL_BODY_BYTES`]: as many as of an upload.
pub(crate) const BODY_BYTES_PER_SECOND: u64 = 16 * 1024;
/// Longest wait of a large body for room.
pub(crate) const BODY_ROOM_WAIT: Duration = Duration::from_secs(10);
/// Large bodies that wait for room.
pub(crate) const BODY_WAITERS: usize = 1_024;
/// [`BODY_WAITERS`] of one account.
pub(crate) const ACCOUNT_BODY_WAITERS: usize = 64;
/// Binary logarithm of the bytes that a frame of Zstandard may look back: 8 MB, which RFC 8878 has every decoder support.
pub(crate) const ZSTD_WINDOW_LOG: u32 = 23;
/// The same in bytes: so much memory a decoder may take.
pub(crate) const ZSTD_WINDOW_BYTES: u64 = 1 << ZSTD_WINDOW_LOG;
/// Bytes that a step of decoding Zstandard makes, at most.
pub(crate) const UNZIPPED_PIECE_BYTES: usize = 64 * 1024;
/// Bytes that a step of decoding any body makes, at most: [`ZIPPED_PIECE_BYTES`] of gzip become a thousand times as many.
#[cfg(test)]
pub(crate) const UNZIPPED_STEP_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a body that are decoded before other tasks have a turn.
pub(crate) const DECODED_BETWEEN_PAUSES: usize = 256 * 1024;
/// Bytes of a body from which on it is judged by a thread that may be kept busy: some milliseconds of work.
pub(crate) const JUDGED_APART_BYTES: usize = 512 * 1024;
/// Fields of a request beside each other: more than fit into [`SMALL_BODY_BYTES`].
pub(crate) const REQUEST_FIELDS: usize = 16 * 1024;
/// Bytes of the name of a field, as it is written.
pub(crate) const FIELD_NAME_BYTES: usize = 64 * 1024;
/// Bytes of a string that is decoded to be looked at.
pub(crate) const DECODED_STRING_BYTES: usize = 1024 * 1024;
/// Levels of indentation that are reckoned with in a string that is too long to be looked at.
pub(crate) const UNSEEN_DEPTH: u64 = 128;
/// Bytes of a body's part from which on it is sent as a slice of the body, rather than copied.
pub(crate) const SHARED_PIECE_BYTES: usize = 256;
/// Bytes of a large body that are handed to a provider's connection together.
pub(crate) const SENT_PIECE_BYTES: usize = 64 * 1024;
/// Choices (`n`) that a request may ask for.
pub(crate) const CHOICES: u64 = 16;
/// Choices of all prompts of a legacy completion together, those included that are not chosen (`best_of`).
pub(crate) const TEXT_CHOICES: u64 = 128;
/// The most tokens of a legacy completion that names no number: as many as `OpenAI` documents.
pub(crate) const TEXT_TOKENS: u64 = 16;
/// Texts of a request for embeddings: as many as `OpenAI` takes.
pub(crate) const EMBEDDING_INPUTS: u64 = 2_048;
/// Dimensions of an embedding.
pub(crate) const EMBEDDING_DIMENSIONS: u64 = 65_536;
/// Tokens that a tokenizer puts around each of several texts, at most.
pub(crate) const INPUT_TOKENS: u64 = 4;
/// Concurrent completions.
pub(crate) const EXCHANGES: usize = 10_000;
/// The `Retry-After` of a request beyond [`EXCHANGES`].
pub(crate) const BUSY_RETRY: Duration = Duration::from_secs(1);
/// The `Retry-After` of a completion that was cut off because the edge stops.
pub(crate) const RESTART_RETRY: Duration = Duration::from_secs(1);
/// The `Retry-After` of a request whose key could not be looked up.
pub(crate) const KEYS_RETRY: Duration = Duration::from_secs(1);
/// Completions that are read to their end concurrently although their clients left; others are settled by estimate.
pub(crate) const DRAINS: usize = 1_000;
/// [`DRAINS`] of one account.
pub(crate) const ACCOUNT_DRAINS: usize = 32;
/// Connections to providers that concurrently wait for the end of an answer that is not needed any more; others are closed.
pub(crate) const ENDS: usize = 1_000;
/// Longest time for a stream without a client to be read to its end. An answer that comes as a whole says what it has used at its end
/// alone, and has [`EXCHANGE`].
pub(crate) const DRAIN_WAIT: Duration = Duration::from_mins(2);
/// Longest time to connect to a provider, the TLS handshake included.
pub(crate) const PROVIDER_CONNECT: Duration = Duration::from_secs(5);
/// Silence after which a connection to a provider is probed.
pub(crate) const PROVIDER_KEEPALIVE: Duration = Duration::from_secs(30);
/// Time for which an idle connection to a provider is kept: less than servers usually do.
pub(crate) const PROVIDER_IDLE: Duration = Duration::from_secs(30);
/// Idle connections kept to one provider.
pub(crate) const PROVIDER_KEPT: usize = 1_000;
/// Fields of the head of a provider's answer.
pub(crate) const PROVIDER_HEAD_FIELDS: usize = 100;
/// Bytes that a connection to a provider reads ahead, the head of an answer included.
pub(crate) const PROVIDER_BUFFER: usize = 32 * 1024;
/// Pieces of a stream that come within this time of each other are read, and passed on, together.
pub(crate) const GATHER: Duration = Duration::from_millis(1);
/// Completions under way from which on pieces are gathered: an edge that is idle gains nothing by waiting.
pub(crate) const GATHER_FROM: usize = 8;
/// Bytes of a stream that are passed on together.
pub(crate) const GATHERED_PIECE: usize = 16 * 1024;
/// Failures of a provider in a row after which it is not asked for a while: more than a restart of one of many servers causes.
pub(crate) const CIRCUIT_FAILURES: u32 = 8;
/// Time for which such a provider is not asked at first; each further failure doubles it.
pub(crate) const CIRCUIT_PAUSE: Duration = Duration::from_secs(5);
/// The longest of these times: so much later at most a provider that is back is noticed.
pub(crate) const CIRCUIT_LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Requests for one model that wait for their turn while its provider's rate limit is reached. They hold their bodies.
pub(crate) const PACED: usize = 4_096;
/// [`PACED`] of one account.
pub(crate) const ACCOUNT_PACED: usize = 256;
/// Time between two requests to a provider that has just refused one for its rate.
pub(crate) const PACE_FIRST_GAP: Duration = Duration::from_millis(100);
/// The shortest such time, to which it falls while the provider takes requests.
pub(crate) const PACE_SHORTEST_GAP: Duration = Duration::from_millis(2);
/// The longest such time, to which it rises with each refusal: some free plans allow a request in some seconds.
pub(crate) const PACE_LONGEST_GAP: Duration = Duration::from_secs(5);
/// Requests a second by which the rate rises for each that is taken, beside the gap itself.
pub(crate) const PACE_GROWTH: f64 = 0.25;
/// Time without a request after a refusal that names none.
pub(crate) const PACE_PAUSE: Duration = Duration::from_secs(1);
/// Time without a refusal after which requests are not paced any more.
pub(crate) const PACE_CALM: Duration = Duration::from_secs(10);
/// Longest time for the whole of an answer once it has begun, unless its request asks for so many tokens that it may take longer.
pub(crate) const EXCHANGE: Duration = Duration::from_mins(10);
/// [`EXCHANGE`] of an answer that may have the most tokens.
pub(crate) const LONGEST_EXCHANGE: Duration = Duration::from_hours(1);
/// Tokens of a choice that a slow model writes in a second, for the time that an answer may take.
pub(crate) const SLOW_TOKENS_PER_SECOND: u64 = 20;
/// Bytes of an answer that is read whole, for which there is room before it is asked for.
pub(crate) const USUAL_ANSWER_BYTES: usize = 4 * 1024;
/// Bytes of a completion, streamed or not; one that is read whole has to find room in `edge.memory` as well. Without log probabilities
/// even the largest has far fewer; with twenty for each token, six choices of 4,096 tokens may have more.
pub(crate) const ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of one event of a stream.
pub(crate) const FRAME_BYTES: usize = 1024 * 1024;
/// Bytes of one event of a stream that passes in its own format: the last one has the whole answer, and some repeat the request.
pub(crate) const NATIVE_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// Blocks of a translated stream that wait for those before them to end.
pub(crate) const HELD_BLOCKS: usize = 1_024;
/// Bytes of what the model says or calls that are held for such blocks.
pub(crate) const HELD_BLOCK_BYTES: usize = 1024 * 1024;
/// Characters of the types of tools that a header names because they were left out.
pub(crate) const LEFT_OUT_CHARS: usize = 400;
/// Tokens of thought below which a budget asks for a low effort.
pub(crate) const LOW_EFFORT_TOKENS: u64 = 4_096;
/// Tokens of thought below which a budget asks for a medium effort.
pub(crate) const MEDIUM_EFFORT_TOKENS: u64 = 16_384;
/// Fields of an answer that is put together from a stream, those of its choices included.
pub(crate) const MERGED_FIELDS: usize = 4_096;
/// Bytes of a compressed answer that are decompressed in one step, to at most a thousand times as many.
pub(crate) const ZIPPED_PIECE_BYTES: usize = 1024;
/// Bytes of a provider's error that are read, for what it complains of and to keep the connection.
pub(crate) const PROVIDER_ERROR_BYTES: usize = 64 * 1024;
/// Longest time for the body of a provider's error to arrive: what has come by then is judged.
pub(crate) const PROVIDER_ERROR_WAIT: Duration = Duration::from_secs(2);
/// Bytes of one message in a provider's error that are judged: what follows may repeat the client's own input.
pub(crate) const PROVIDER_WORDS_BYTES: usize = 2 * 1024;
/// Longest wait for the end of a stream after its last frame.
pub(crate) const STREAM_END: Duration = Duration::from_secs(1);
/// Wait for a stream's first words before its head is sent without them. What fails by then has a status of its own, which clients
/// understand better than an event.
pub(crate) const STREAM_BEGINNING: Duration = Duration::from_secs(1);
/// Silence after which a stream's client is sent a comment: proxies in between give up after 30 to 60 seconds.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time for the error frame of a failed stream to leave before the connection is broken off.
pub(crate) const ABORT_GRACE: Duration = Duration::from_millis(100);
/// Longest `Retry-After` of a provider that is passed on.
pub(crate) const PROVIDER_RETRY_AFTER: Duration = Duration::from_mins(1);
/// The `Retry-After` for a provider that accepts no more requests and does not say until when.
pub(crate) const OVERLOAD_RETRY: Duration = Duration::from_secs(5);
/// Bytes by which an answer that is written anew is longer than the provider's, mostly.
pub(crate) const ADDED_BYTES: usize = 128;
/// The bytes at the end of a frame with words in which the reason is looked for why its choice ends.
pub(crate) const FRAME_END_BYTES: usize = 96;
/// The headers that a completion usually has: for so many there is room before the first is written.
pub(crate) const ANSWER_HEADERS: usize = 15;
/// The bytes that the values of its rate limits usually have together.
pub(crate) const RATE_HEADER_BYTES: usize = 64;
/// Characters of a client's own input that are repeated in a message.
pub(crate) const QUOTED_CHARS: usize = 100;
/// Bytes of `id` or `created` that are repeated in a frame of our own.
pub(crate) const IDENTITY_BYTES: usize = 256;
/// Bytes of a field of a request that its response repeats, where that is done for convenience alone.
pub(crate) const ECHOED_BYTES: usize = 2 * 1024;
/// Bytes of a request's `metadata`, which its response always repeats: `OpenAI` takes 16 pairs of 64 and 512 characters.
pub(crate) const METADATA_BYTES: usize = 16 * 1024;
/// Bytes of the header that says what of a request was left out.
pub(crate) const WARNING_BYTES: usize = 512;
/// Bytes of the name of a function that is made of those of a namespace and its tool.
pub(crate) const FUNCTION_NAME_BYTES: usize = 64;
/// Bytes that an event of a translated stream has at most, mostly.
pub(crate) const USUAL_EVENT_BYTES: usize = 512;
/// Calls of tools in an answer that is translated.
pub(crate) const TOOL_CALLS: usize = 512;
/// Bytes of a choice's `index` that are remembered.
pub(crate) const INDEX_BYTES: usize = 32;
/// Tokens that an image has at most: providers scale larger ones down.
pub(crate) const IMAGE_TOKENS: u64 = 4_096;
/// Tokens of a chat template, its preamble above all, beyond those that the JSON around the messages makes up for.
pub(crate) const TEMPLATE_TOKENS: u64 = 64;
/// Tokens with which a chat template introduces the tools, at most.
pub(crate) const TOOLS_TOKENS: u64 = 512;
/// Tokens with which a chat template surrounds one member of JSON that it prints, at most, beyond its indentation.
pub(crate) const MEMBER_TOKENS: u64 = 8;
/// Tokens by which a number with an exponent is longer in full: at most sixteen digits and `.0`.
pub(crate) const NUMBER_TOKENS: u64 = 16;
/// Bytes of an argument for the chat template.
pub(crate) const TEMPLATE_ARGUMENT_BYTES: usize = 256;
/// Tokens that a template makes of a byte of such an argument, at most: some print each character as a string of its own.
pub(crate) const TEMPLATE_ARGUMENT_TOKENS: u64 = 4;
/// Bytes of text that make a token, usually.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;
/// Tokens that a quick model writes of a choice in a second, for the estimate of an answer that nobody reads.
pub(crate) const TOKENS_PER_SECOND: u64 = 100;
/// Tokens beyond which a provider's report is not believed.
pub(crate) const BELIEVABLE_TOKENS: u64 = 10_000_000;
