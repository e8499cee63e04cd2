//! Limits of the gateway's completions.

use std::time::Duration;

/// Bytes of the largest body that is read on its connection's memory, and rewritten: the contract's maximum.
pub const SMALL_BODY_BYTES: usize = 64 * 1024;
/// Maximum time for a small body to arrive in full.
pub const COMPLETION_BODY: Duration = Duration::from_secs(30);
/// Minimum bytes per second of a body beyond [`SMALL_BODY_BYTES`], as for an upload.
pub const BODY_BYTES_PER_SECOND: u64 = 16 * 1024;
/// Times its bytes that reading a request in a translated format is charged with: the body, its translation, and the
/// message that is being translated. The worst bodies, of very many small elements, take twice as much.
pub const TRANSLATED_BODY_COPIES: u64 = 3;
/// Tools of a request in a translated format. Providers have much lower maxima: `OpenAI` documents 128.
pub const TRANSLATED_TOOLS: usize = 1_024;
/// Stop sequences of a request in a translated format. Providers have much lower maxima: `OpenAI` documents 4.
pub const STOP_SEQUENCES: usize = 1_024;
/// Maximum wait of a large body for memory.
pub const BODY_ROOM_WAIT: Duration = Duration::from_secs(10);
/// Maximum wait of a body whose length was not announced, or was wrong, for more memory. Meanwhile it holds what it has.
pub const BODY_GROWTH_WAIT: Duration = Duration::from_secs(3);
/// Large bodies waiting for memory.
pub const BODY_WAITERS: usize = 1_024;
/// [`BODY_WAITERS`] of one account.
pub const ACCOUNT_BODY_WAITERS: usize = 64;
/// Binary logarithm of the Zstandard window: 8 MB, which RFC 8878 recommends that every decoder support.
pub const ZSTD_WINDOW_LOG: u32 = 23;
/// The Zstandard window in bytes, which is the memory that a decoder may take.
pub const ZSTD_WINDOW_BYTES: u64 = 1 << ZSTD_WINDOW_LOG;
/// Maximum bytes that one step of decoding Zstandard produces.
pub const UNZIPPED_PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a body that are decoded before yielding to other tasks.
pub const DECODED_BETWEEN_PAUSES: usize = 256 * 1024;
/// Bytes of a body from which it is parsed on a blocking thread: some milliseconds of work.
pub const JUDGED_APART_BYTES: usize = 512 * 1024;
/// Fields at one level of a request: more than fit into [`SMALL_BODY_BYTES`].
pub const REQUEST_FIELDS: usize = 16 * 1024;
/// Bytes of a field's name, as written.
pub const FIELD_NAME_BYTES: usize = 64 * 1024;
/// Bytes of a string that is decoded for inspection.
pub const DECODED_STRING_BYTES: usize = 1024 * 1024;
/// Levels of indentation assumed in a string that is too long to inspect.
pub const UNSEEN_DEPTH: u64 = 128;
/// Bytes from which a part of a body is sent as a slice of it rather than copied.
pub const SHARED_PIECE_BYTES: usize = 256;
/// Bytes of a large body that are passed to a provider's connection together.
pub const SENT_PIECE_BYTES: usize = 64 * 1024;
/// Choices (`n`) that a request may ask for.
pub const CHOICES: u64 = 16;
/// Choices of all prompts of a legacy completion together, including discarded ones (`best_of`).
pub const TEXT_CHOICES: u64 = 128;
/// Maximum tokens of a legacy completion that sets no maximum, as `OpenAI` documents.
pub const TEXT_TOKENS: u64 = 16;
/// Texts of a request for embeddings, the maximum of `OpenAI`.
pub const EMBEDDING_INPUTS: u64 = 2_048;
/// Dimensions of an embedding.
pub const EMBEDDING_DIMENSIONS: u64 = 65_536;
/// Maximum tokens that a tokenizer adds around each of several texts.
pub const INPUT_TOKENS: u64 = 4;
/// Concurrent completions.
pub const EXCHANGES: usize = 10_000;
/// The `Retry-After` of a request beyond [`EXCHANGES`].
pub const BUSY_RETRY: Duration = Duration::from_secs(1);
/// The `Retry-After` of a completion that was aborted because the edge stops.
pub const RESTART_RETRY: Duration = Duration::from_secs(1);
/// The `Retry-After` of a request whose key could not be looked up.
pub const KEYS_RETRY: Duration = Duration::from_secs(1);
/// Completions concurrently read to their end after their clients disconnected; others are charged for the most that they
/// may have used.
pub const DRAINS: usize = 1_000;
/// [`DRAINS`] of one account.
pub const ACCOUNT_DRAINS: usize = 32;
/// Connections to providers that concurrently wait for the end of an unneeded response; others are closed.
pub const ENDS: usize = 1_000;
/// Maximum time to read a stream without a client. A non-streaming response has its usage at the end, and [`EXCHANGE`].
pub const DRAIN_WAIT: Duration = Duration::from_mins(2);
/// Maximum time to connect to a provider, including the TLS handshake.
pub const PROVIDER_CONNECT: Duration = Duration::from_secs(5);
/// Silence after which a connection to a provider is probed.
pub const PROVIDER_KEEPALIVE: Duration = Duration::from_secs(30);
/// Time for which an idle connection to a provider is kept: less than servers usually keep it.
pub const PROVIDER_IDLE: Duration = Duration::from_secs(30);
/// Idle connections kept to one provider.
pub const PROVIDER_KEPT: usize = 1_000;
/// Header fields of a provider's response.
pub const PROVIDER_HEAD_FIELDS: usize = 100;
/// Bytes that a connection to a provider buffers, including a response's head.
pub const PROVIDER_BUFFER: usize = 32 * 1024;
/// Time within which consecutive chunks of a stream are read and passed on together.
pub const GATHER: Duration = Duration::from_millis(1);
/// Completions in flight from which chunks are gathered: an idle edge gains nothing by waiting.
pub const GATHER_FROM: usize = 8;
/// Bytes of a stream that are passed on together.
pub const GATHERED_PIECE: usize = 16 * 1024;
/// Consecutive failures of a provider after which its circuit opens: more than a restart of one of many servers causes.
pub const CIRCUIT_FAILURES: u32 = 8;
/// Time for which the circuit stays open at first; each further failure doubles it.
pub const CIRCUIT_PAUSE: Duration = Duration::from_secs(5);
/// Maximum time for which the circuit stays open, and so the maximum delay until a recovered provider is used again.
pub const CIRCUIT_LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Requests for one model waiting for their turn while its provider's rate limit is reached. They hold their bodies.
pub const PACED: usize = 4_096;
/// [`PACED`] of one account.
pub const ACCOUNT_PACED: usize = 256;
/// Gap between two requests to a provider that has just rate-limited one.
pub const PACE_FIRST_GAP: Duration = Duration::from_millis(100);
/// Minimum gap, to which it falls while the provider accepts requests.
pub const PACE_SHORTEST_GAP: Duration = Duration::from_millis(2);
/// Maximum gap, to which it rises with each rate-limited request: some free plans allow one request every few seconds.
pub const PACE_LONGEST_GAP: Duration = Duration::from_secs(5);
/// Requests per second by which the rate rises for each accepted request, in addition to the gap itself.
pub const PACE_GROWTH: f64 = 0.25;
/// Pause after a rate-limited request whose response does not say how long to wait.
pub const PACE_PAUSE: Duration = Duration::from_secs(1);
/// Time without a rate-limited request after which pacing ends.
pub const PACE_CALM: Duration = Duration::from_secs(10);
/// Maximum time for a response once it has started, unless its request asks for enough tokens that it may take longer.
pub const EXCHANGE: Duration = Duration::from_mins(10);
/// [`EXCHANGE`] of a response that may have the most tokens.
pub const LONGEST_EXCHANGE: Duration = Duration::from_hours(1);
/// Tokens per second and choice of a slow model, for the maximum time of a response.
pub const SLOW_TOKENS_PER_SECOND: u64 = 20;
/// Bytes reserved for a non-streaming completion before the provider is contacted.
pub const USUAL_ANSWER_BYTES: usize = 4 * 1024;
/// Bytes of a completion, streaming or not; a non-streaming one must find room in `edge.memory` as well. Without log
/// probabilities even the largest has far fewer; with twenty for each token, six choices of 4,096 tokens may have more.
pub const ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of one event of a stream.
pub const FRAME_BYTES: usize = 1024 * 1024;
/// Bytes of one event of a stream in its own format: the last has the whole response, and some repeat the request.
pub const NATIVE_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// Blocks of a translated stream waiting for earlier blocks to end.
pub const HELD_BLOCKS: usize = 1_024;
/// Bytes of text and tool calls buffered for such blocks.
pub const HELD_BLOCK_BYTES: usize = 1024 * 1024;
/// Characters of the types of dropped tools that a header names.
pub const LEFT_OUT_CHARS: usize = 400;
/// Thinking tokens below which a budget maps to low effort.
pub const LOW_EFFORT_TOKENS: u64 = 4_096;
/// Thinking tokens below which a budget maps to medium effort.
pub const MEDIUM_EFFORT_TOKENS: u64 = 16_384;
/// Fields of a response assembled from a stream, including those of its choices.
pub const MERGED_FIELDS: usize = 4_096;
/// Bytes of a compressed response that are decompressed in one step, to at most a thousand times that size.
pub const ZIPPED_PIECE_BYTES: usize = 1024;
/// Bytes of a provider's error that are read, to classify it and to keep the connection.
pub const PROVIDER_ERROR_BYTES: usize = 64 * 1024;
/// Maximum time for the body of a provider's error to arrive: what has arrived by then is classified.
pub const PROVIDER_ERROR_WAIT: Duration = Duration::from_secs(2);
/// Bytes of one message in a provider's error that are classified: the rest may repeat the client's own input.
pub const PROVIDER_WORDS_BYTES: usize = 2 * 1024;
/// Maximum wait for the end of a stream after its last frame.
pub const STREAM_END: Duration = Duration::from_secs(1);
/// Wait for a stream's first content before its head is sent. Clients handle an error status better than an event.
pub const STREAM_BEGINNING: Duration = Duration::from_secs(1);
/// Silence after which a stream's client receives a comment: proxies in between time out after 30 to 60 seconds.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time for the error frame of a failed stream to be sent before the connection is aborted.
pub const ABORT_GRACE: Duration = Duration::from_millis(100);
/// Maximum `Retry-After` of a provider that is passed on.
pub const PROVIDER_RETRY_AFTER: Duration = Duration::from_mins(1);
/// The `Retry-After` for a provider that accepts no more requests and does not say until when.
pub const OVERLOAD_RETRY: Duration = Duration::from_secs(5);
/// Bytes by which a rewritten response usually exceeds the provider's.
pub const ADDED_BYTES: usize = 128;
/// Bytes at the end of a content frame that are searched for its choice's finish reason.
pub const FRAME_END_BYTES: usize = 96;
/// Headers that a completion usually has, for which memory is preallocated.
pub const ANSWER_HEADERS: usize = 15;
/// Bytes that the values of a completion's rate limit headers usually have together.
pub const RATE_HEADER_BYTES: usize = 64;
/// Characters of a client's own input that a message quotes.
pub const QUOTED_CHARS: usize = 100;
/// Bytes of `id` or `created` that are repeated in a frame of our own.
pub const IDENTITY_BYTES: usize = 256;
/// Bytes of a request's field that its response repeats for convenience only.
pub const ECHOED_BYTES: usize = 2 * 1024;
/// Bytes of a request's `metadata`, which its response repeats: `OpenAI` accepts 16 pairs of 64 and 512 characters.
pub const METADATA_BYTES: usize = 16 * 1024;
/// Bytes of the header that lists dropped parts of a request.
pub const WARNING_BYTES: usize = 512;
/// Bytes of a function name composed of a namespace and a tool.
pub const FUNCTION_NAME_BYTES: usize = 64;
/// Bytes that an event of a translated stream rarely exceeds.
pub const USUAL_EVENT_BYTES: usize = 512;
/// Tool calls in a translated response.
pub const TOOL_CALLS: usize = 512;
/// Bytes of a choice's `index` that are kept.
pub const INDEX_BYTES: usize = 32;
/// Maximum tokens of an image: providers scale larger ones down.
pub const IMAGE_TOKENS: u64 = 4_096;
/// Tokens of a chat template, mostly its preamble, beyond those that the JSON around the messages accounts for.
pub const TEMPLATE_TOKENS: u64 = 64;
/// Maximum tokens with which a chat template introduces the tools.
pub const TOOLS_TOKENS: u64 = 512;
/// Maximum tokens that a chat template adds around one JSON member that it prints, beyond its indentation.
pub const MEMBER_TOKENS: u64 = 8;
/// Tokens by which a number with an exponent is longer in full: at most sixteen digits and `.0`.
pub const NUMBER_TOKENS: u64 = 16;
/// Bytes of an argument of the chat template.
pub const TEMPLATE_ARGUMENT_BYTES: usize = 256;
/// Maximum tokens that a template makes of a byte of such an argument: some print each character as its own string.
pub const TEMPLATE_ARGUMENT_TOKENS: u64 = 4;
/// Usual bytes of text per token.
pub const BYTES_PER_TOKEN: u64 = 4;
/// Tokens per second and choice of a fast model, for the estimate of a response that nobody reads.
pub const TOKENS_PER_SECOND: u64 = 100;
/// Tokens beyond which a provider's report is implausible and ignored.
pub const BELIEVABLE_TOKENS: u64 = 10_000_000;
