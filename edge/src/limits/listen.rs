//! Bounds of connections, and of HTTP on them.

use std::time::Duration;

use fairness::budget::Patience;

/// Memory that an idle connection over TLS and HTTP/1.1 takes: 19 KB as measured (bench/README.md), and some more as not all are parked.
/// `edge.connections` follows from it unless it is configured. Where most are at work, [`SHED_MEMORY_PERCENT`] comes first.
pub(crate) const CONNECTION_BYTES: u64 = 24 * 1000;
/// Open files that neither connections nor requests for the platform may take: for the database, the store, the gateway's
/// upstreams, the connections to admins that idle, the logs.
pub(crate) const SPARE_FILES: usize = 384;
/// Connections over which plain HTTP leaves room for HTTPS: so many hundredths of all are never plain.
pub(crate) const HTTPS_RESERVE_PERCENT: usize = 25;
/// Concurrent connections of one client, unless `edge.connections_per_client` says otherwise.
pub(crate) const CONNECTIONS_PER_CLIENT: usize = 512;
/// Longest time for the first byte of a connection to arrive, and, over TLS, for the first byte of its first request.
pub(crate) const FIRST_BYTE: Duration = Duration::from_secs(5);
/// [`FIRST_BYTE`] of a connection that is accepted while more than [`SHED_CONNECTIONS_PERCENT`] of the connections are taken. Who waits
/// for the place of a silent one waits about as long. A visitor's first byte takes one way there and back, and a second if it is lost.
pub(crate) const FIRST_BYTE_CROWDED: Duration = Duration::from_millis(1_500);
/// The files that a process may open where the system does not say it.
pub(crate) const USUAL_OPEN_FILES: usize = 1_024;
/// Interval at which it is looked whether files or memory run short.
pub(crate) const SHED_EVERY: Duration = Duration::from_secs(1);
/// Hundredths of the files, or of the machine's memory, above which connections are shed.
pub(crate) const SHED_ABOVE_PERCENT: u64 = 80;
/// Hundredths of `edge.memory` that the process may take before connections are shed: what it remembers and sends, its code, and
/// connections. These may be as many as fit into `edge.memory` alone, so a process that has both is the one that sheds.
pub(crate) const SHED_MEMORY_PERCENT: u64 = 125;
/// Hundredths of the connections that there may be above which some are shed.
pub(crate) const SHED_CONNECTIONS_PERCENT: u64 = 90;
/// Connections that are shed in one step.
pub(crate) const SHED_AT_ONCE: usize = 256;
/// Connections that the greediest client keeps in any case.
pub(crate) const SHED_SPARES: usize = 8;
/// Length of the kernel's queue of connections that wait to be accepted.
pub(crate) const ACCEPT_QUEUE: u32 = 4_096;
/// Pause after the system refused to accept, so that the loop does not spin while files are short.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that may follow the fixed part of a balancer's header of the PROXY protocol: addresses, and what it says of the client's TLS.
pub(crate) const PROXY_HEADER_BYTES: usize = 4 * 1024;
/// Longest time for such a header to arrive.
pub(crate) const PROXY_HEADER: Duration = FIRST_BYTE;
/// Longest time from the accepted connection to the finished TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at the same time in which an authority is shown a certificate for its challenge.
pub(crate) const VALIDATIONS: usize = 256;
/// Such handshakes at the same time with one client.
pub(crate) const VALIDATIONS_PER_CLIENT: usize = 64;
/// Longest time for the last record of such a handshake to be sent.
pub(crate) const VALIDATION_END: Duration = Duration::from_secs(1);
/// Longest time for the head of a request to arrive, and for a connection over HTTP/1.1 to idle before it.
pub(crate) const REQUEST_HEAD: Duration = Duration::from_secs(30);
/// How long a connection over HTTP/1.1 idles before it is parked. A page's next requests have come by then.
pub(crate) const PARK_IDLE_AFTER: Duration = Duration::from_secs(2);
/// Bytes that are read at once of what ends the idling of a parked connection: most heads.
pub(crate) const PARKED_READ_BYTES: usize = 2 * 1024;
/// Longest time for which, at the end of a connection whose requests had bodies, what still comes is read and thrown away, so
/// that the last answer arrives.
pub(crate) const LINGER: Duration = Duration::from_secs(15);
/// Longest time in sum for which an answer that is ready may wait for its visitor to take [`STALL_BYTES`]. Over HTTP/1.1 the
/// connection is cut then, over HTTP/2 the stream is reset.
pub(crate) const STALL: Duration = Duration::from_secs(30);
/// Bytes that a visitor takes within [`STALL`]: a kilobyte a second.
pub(crate) const STALL_BYTES: u64 = 30 * 1024;
/// Wait of an answer for its visitor after which it is cut where hardly any memory is left, if the visitor is one of those who hold the
/// most, instead of after [`STALL`].
pub(crate) const PRESSED_AFTER: Duration = Duration::from_secs(2);
/// Bytes of memory that a stream over HTTP/2 takes while its answer waits for something: its task, and what h2 and the TLS records hold
/// of it. Held beside the bytes of the answer.
pub(crate) const STREAM_BYTES: u64 = 20 * 1000;
/// Streams over HTTP/2 of one client that may begin although its share is used up, mostly by what it does not take. The newest push out
/// the oldest of which it has not taken [`STALL_BYTES`].
pub(crate) const STREAMS_BEYOND: usize = 16;
/// Time without a request after which an HTTP/2 connection is asked to end.
pub(crate) const H2_IDLE: Duration = Duration::from_mins(2);
/// Interval at which an HTTP/2 visitor is pinged.
pub(crate) const H2_PING_EVERY: Duration = Duration::from_secs(30);
/// Longest time for an HTTP/2 visitor to answer a ping.
pub(crate) const H2_PING_WAIT: Duration = Duration::from_secs(15);
/// Age at which a connection is asked to end, so that none lives for ever.
pub(crate) const CONNECTION_AGE: Duration = Duration::from_hours(1);
/// Longest time for which a connection that was asked to end goes on with what it has begun.
pub(crate) const CONNECTION_END: Duration = Duration::from_mins(10);
/// Longest time for which requests in flight go on at shutdown, except for completions of the gateway: those have
/// `edge.drain_seconds`.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
/// Longest time for which, at shutdown, a connection is kept for its first request.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(2);
/// Interval at which it is looked whether that request has come.
pub(crate) const FIRST_REQUEST_LOOK: Duration = Duration::from_millis(20);
/// Time for what is cut off at shutdown to say so: an error frame, a 503.
pub(crate) const CUT_OFF: Duration = Duration::from_secs(1);
/// Longest time for which an edge that has handed its sockets over goes on with what it has begun: as long as a connection does
/// that was asked to end.
pub(crate) const UPGRADE_DRAIN: Duration = CONNECTION_END;
/// Longest time for a new edge to appear and to take the listening sockets over.
pub(crate) const HAND_OVER: Duration = Duration::from_secs(30);
/// Pause before the running edge looks again whether the new one is there.
pub(crate) const HAND_OVER_RETRY: Duration = Duration::from_millis(50);
/// Longest time for a new edge to wait for the sockets of the running one.
pub(crate) const TAKE_OVER: Duration = Duration::from_mins(1);
/// Longest time for which, at the start, connections wait for admin to be told of this edge.
pub(crate) const READY_WAIT: Duration = Duration::from_secs(2);
/// Longest time that background work takes to end after the last connection.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(1);
/// Bytes of a request's head over HTTP/1.1.
pub(crate) const HEAD_BYTES: usize = 32 * 1024;
/// Fields of a request's head over HTTP/1.1.
pub(crate) const HEAD_FIELDS: usize = 100;
/// Bytes of a request's head over HTTP/2, decompressed. So many that whatever fits into [`HEAD_BLOCK_BYTES`] is taken: Huffman's
/// code makes eight bits of five, and 180 cookies count 32 bytes more each.
pub(crate) const H2_HEAD_BYTES: u32 = 40 * 1024;
/// Bytes of a request's head over HTTP/2, as it is sent, beyond which cookies that made it so are cleared.
pub(crate) const HEAD_BLOCK_BYTES: usize = 16 * 1024;
/// Bytes of the largest cookie that browsers keep, about, as a head has it.
pub(crate) const COOKIE_BYTES: usize = 4_200;
/// Bytes of one read whose result is thrown away, of a head that is too large.
pub(crate) const HEAD_DRAIN_BYTES: usize = 4 * 1024;
/// Concurrent requests on an HTTP/2 connection.
pub(crate) const H2_STREAMS: u32 = 128;
/// Bytes that a visitor may send on one HTTP/2 stream before they are read.
pub(crate) const H2_STREAM_WINDOW: u32 = 64 * 1024;
/// Bytes that a visitor may send on one HTTP/2 connection before they are read.
pub(crate) const H2_CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of an HTTP/2 frame from a visitor.
pub(crate) const H2_FRAME_BYTES: u32 = 16 * 1024;
/// Bytes of an answer that wait to be sent in one HTTP/2 stream: no more than it may send, and one block.
pub(crate) const H2_SEND_BUFFER: usize = super::BLOCK_BYTES;
/// Bytes below which a part of a block is copied rather than have the whole block wait with it.
pub(crate) const COPIED_BYTES: usize = 16 * 1024;
/// Bytes of answers that one connection holds.
pub(crate) const CONNECTION_FLIGHT_BYTES: u64 = 1_000_000;
/// Longest wait of an answer for others on its connection to be taken. A connection of which nothing is taken ends sooner.
pub(crate) const CONNECTION_FLIGHT_WAIT: Duration = CONNECTION_END;
/// Longest wait of an answer for other connections to give back memory. Then it is 503, or breaks off.
pub(crate) const FLIGHT_WAIT: Duration = Duration::from_secs(10);
/// Longest wait of an answer for memory to send it.
pub(crate) const FLIGHT_PATIENCE: Patience = Patience { own: CONNECTION_FLIGHT_WAIT, others: FLIGHT_WAIT };
/// Longest wait of a request for memory to read its body. Short, because what has come of it stands in the way of other requests of the
/// same connection.
pub(crate) const BODY_PATIENCE: Patience = Patience { own: Duration::from_secs(2), others: Duration::from_secs(2) };
/// Seconds after which one who was refused for want of memory may come again.
pub(crate) const FLIGHT_RETRY_SECONDS: u64 = 5;
/// Time after which an answer that its visitor does not take lets go of what can be read again.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(1);
/// Bytes of HTTP/2 frames that are gathered before they are sent: as many as leave together.
pub(crate) const GATHERED_BYTES: usize = RECORDS_BYTES;
/// Bytes of TLS records that leave together: as many as rustls takes in one call by itself.
pub(crate) const RECORDS_BYTES: usize = 64 * 1024;
/// Bytes of TLS records that leave with these while there is memory to spare, of a body that goes on for longer. A send of all has
/// the reader woken once, where four smaller ones have it woken four times.
pub(crate) const RECORDS_SPARE_BYTES: usize = 192 * 1024;
/// Control frames over HTTP/2 (pings, settings, priorities, unknown ones) that a visitor may send in a burst.
pub(crate) const H2_CONTROL_FRAMES: u32 = 100;
/// Control frames that a visitor may send every second, beside that burst.
pub(crate) const H2_CONTROL_FRAMES_PER_SECOND: u32 = 10;
/// Control frames that come with a request, or with data, at most.
pub(crate) const H2_CONTROL_FRAMES_PER_REQUEST: u32 = 4;
/// Window updates that a visitor may send beside those for what it was sent.
pub(crate) const H2_WINDOW_UPDATES: u32 = 1_000;
/// Window updates that may follow each write of ours.
pub(crate) const H2_WINDOW_UPDATES_PER_WRITE: u32 = 4;
/// Bytes that were written for which one window update more may follow.
pub(crate) const H2_WINDOW_UPDATE_BYTES: u32 = 128;
/// Longest time for a visitor who is told to calm down to take that message.
pub(crate) const H2_CALM_WAIT: Duration = Duration::from_secs(1);
/// HTTP/2 streams that a visitor may reset before they are answered (rapid reset), and that it may make us reset.
pub(crate) const H2_RESETS: usize = 32;
/// Hours for which a TLS session ticket can be resumed.
pub(crate) const TICKET_HOURS: u64 = 6;
/// Bytes that are kept of a head's line that arrives in parts.
pub(crate) const HEAD_LINE_BYTES: usize = 128;
/// Bytes of one read whose result is thrown away, at the end of a connection.
pub(crate) const LINGER_READ_BYTES: usize = 16 * 1024;
/// Bytes that are copied together for one write rather than handed over as a list.
pub(crate) const JOINED_WRITE_BYTES: usize = 1024;
