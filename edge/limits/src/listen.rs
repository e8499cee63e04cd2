//! Limits of connections, and of HTTP on them.

use std::time::Duration;

use fairness::budget::WaitLimits;

/// Memory of an idle connection over TLS and HTTP/1.1: 19 KB as measured (bench/README.md), and more since not all are
/// parked. `edge.connections` defaults by it. When most are busy, [`SHED_MEMORY_PERCENT`] comes first.
pub const CONNECTION_BYTES: u64 = 24 * 1000;
/// Open files reserved for the database, the store, the gateway's upstreams, idle connections to admins, and logs.
pub const SPARE_FILES: usize = 384;
/// Percentage of all connections that is reserved for HTTPS, and never available to plain HTTP.
pub const HTTPS_RESERVE_PERCENT: usize = 25;
/// Concurrent connections of one client, unless `edge.connections_per_client` is set.
pub const CONNECTIONS_PER_CLIENT: usize = 512;
/// Maximum time for the first byte of a connection to arrive and, over TLS, for the first byte of its first request.
pub const FIRST_BYTE: Duration = Duration::from_secs(5);
/// [`FIRST_BYTE`] of a connection that is accepted while more than [`SHED_CONNECTIONS_PERCENT`] of the connections are
/// in use. A client that waits for the slot of a silent connection waits about that long. A visitor's first byte takes
/// one round trip, and one second more if it is lost.
pub const FIRST_BYTE_CROWDED: Duration = Duration::from_millis(1_500);
/// Open file limit assumed if the system reports none.
pub const USUAL_OPEN_FILES: usize = 1_024;
/// Interval at which files and memory are checked for shortage.
pub const SHED_EVERY: Duration = Duration::from_secs(1);
/// Percentage of the files, or of the machine's memory, above which connections are shed.
pub const SHED_ABOVE_PERCENT: u64 = 80;
/// Percentage of `edge.memory` that the process may use before connections are shed: caches, data in flight, code and
/// connections. Connections alone may fill `edge.memory`, so a process whose caches are full as well sheds.
pub const SHED_MEMORY_PERCENT: u64 = 125;
/// Percentage of the maximum of connections above which some are shed.
pub const SHED_CONNECTIONS_PERCENT: u64 = 90;
/// Connections shed in one step.
pub const SHED_BATCH: usize = 256;
/// Connections that the greediest client always keeps.
pub const SHED_SPARES: usize = 8;
/// Length of the kernel's queue of connections to accept.
pub const ACCEPT_QUEUE: u32 = 4_096;
/// Pause after the system refused to accept, so that the loop does not spin while files are short.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes after the fixed part of a balancer's PROXY protocol header: addresses, and properties of the client's TLS.
pub const PROXY_HEADER_BYTES: usize = 4 * 1024;
/// Maximum time for such a header to arrive.
pub const PROXY_HEADER: Duration = FIRST_BYTE;
/// Maximum time from the accepted connection to the completed TLS handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Concurrent handshakes that present a challenge certificate to an authority.
pub const VALIDATIONS: usize = 256;
/// Concurrent handshakes of that kind with one client.
pub const VALIDATIONS_PER_CLIENT: usize = 64;
/// Maximum time to send the last record of such a handshake.
pub const VALIDATION_END: Duration = Duration::from_secs(1);
/// Maximum time for the head of a request to arrive, and for an HTTP/1.1 connection to idle before it.
pub const REQUEST_HEAD: Duration = Duration::from_secs(30);
/// Idle time after which an HTTP/1.1 connection is parked. A page's next requests have arrived by then.
pub const PARK_IDLE_AFTER: Duration = Duration::from_secs(2);
/// Bytes of one read of a parked connection when it wakes: most heads fit.
pub const PARKED_READ_BYTES: usize = 2 * 1024;
/// Maximum time to discard input at the end of a connection whose requests had bodies, so that the response arrives.
pub const LINGER: Duration = Duration::from_secs(15);
/// Maximum total time for which a ready response may wait for its visitor to read [`STALL_BYTES`]. Then an HTTP/1.1
/// connection is aborted, and an HTTP/2 stream is reset.
pub const STALL: Duration = Duration::from_secs(30);
/// Bytes that a visitor has to read within [`STALL`]: a kilobyte per second.
pub const STALL_BYTES: u64 = 30 * 1024;
/// [`STALL`] while hardly any memory is left, for visitors that hold the most.
pub const STALL_UNDER_PRESSURE: Duration = Duration::from_secs(2);
/// Bytes of a waiting HTTP/2 response beyond its own: its task, and the state of h2 and the TLS records.
pub const STREAM_BYTES: u64 = 20 * 1000;
/// Bytes of a response's head that are not charged: more than it has without a site's `_headers`.
pub const USUAL_HEAD_BYTES: usize = 6 * 1024;
/// Bytes that a field of a head takes in memory beyond its name and value.
pub const HEAD_FIELD_BYTES: usize = 128;
/// HTTP/2 streams that one client may start although its share is used up, mostly by responses that it does not read.
/// The newest replace the oldest of which it has not read [`STALL_BYTES`].
pub const STREAMS_BEYOND: usize = 16;
/// Time without a request after which an HTTP/2 connection is shut down gracefully.
pub const H2_IDLE: Duration = Duration::from_mins(2);
/// Interval at which an HTTP/2 visitor is pinged.
pub const H2_PING_EVERY: Duration = Duration::from_secs(30);
/// Maximum time for an HTTP/2 visitor to answer a ping.
pub const H2_PING_WAIT: Duration = Duration::from_secs(15);
/// Age at which a connection is shut down gracefully, so that none lives forever.
pub const CONNECTION_AGE: Duration = Duration::from_hours(1);
/// Maximum time for which a connection in graceful shutdown continues its requests.
pub const CONNECTION_END: Duration = Duration::from_mins(10);
/// Maximum time for requests in flight at shutdown, except for completions of the gateway (`edge.drain_seconds`).
pub const DRAIN: Duration = Duration::from_secs(5);
/// Maximum time for which a connection is kept for its first request at shutdown.
pub const FIRST_REQUEST: Duration = Duration::from_secs(2);
/// Interval at which the arrival of that request is checked.
pub const FIRST_REQUEST_CHECK_EVERY: Duration = Duration::from_millis(20);
/// Time to report an abort at shutdown: an error frame, or a 503.
pub const CUT_OFF: Duration = Duration::from_secs(1);
/// Maximum time for an edge that has handed over its sockets to drain: that of a connection in graceful shutdown.
pub const UPGRADE_DRAIN: Duration = CONNECTION_END;
/// Maximum time for a new edge to appear and to take over the listening sockets.
pub const HAND_OVER: Duration = Duration::from_secs(30);
/// Pause before the running edge checks again for the new one.
pub const HAND_OVER_RETRY: Duration = Duration::from_millis(50);
/// Maximum time for which a new edge waits for the sockets of the running one.
pub const TAKE_OVER: Duration = Duration::from_mins(1);
/// Maximum time for which connections wait, at startup, until admin knows of this edge.
pub const READY_WAIT: Duration = Duration::from_secs(2);
/// Maximum time for background work to end after the last connection.
pub const BACKGROUND_END_WAIT: Duration = Duration::from_secs(1);
/// Bytes of the head of an HTTP/1.1 request.
pub const HEAD_BYTES: usize = 32 * 1024;
/// Fields of the head of an HTTP/1.1 request.
pub const HEAD_FIELDS: usize = 100;
/// Bytes of the head of an HTTP/2 request, decompressed. Enough for everything that fits into [`HEAD_BLOCK_BYTES`]:
/// Huffman coding expands five bits to eight, and 180 cookies count 32 bytes more each.
pub const H2_HEAD_BYTES: u32 = 40 * 1024;
/// Bytes of the compressed head of an HTTP/2 request beyond which cookies that caused the excess are cleared.
pub const HEAD_BLOCK_BYTES: usize = 16 * 1024;
/// Approximate bytes of the largest cookie that browsers keep, as it appears in a head.
pub const COOKIE_BYTES: usize = 4_200;
/// Bytes of one discarded read of an oversized head.
pub const HEAD_DRAIN_BYTES: usize = 4 * 1024;
/// Concurrent requests on an HTTP/2 connection.
pub const H2_STREAMS: u32 = 128;
/// Bytes that a visitor may send on an HTTP/2 stream before they are read.
pub const H2_STREAM_WINDOW: u32 = 64 * 1024;
/// Bytes that a visitor may send on an HTTP/2 connection before they are read.
pub const H2_CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of an HTTP/2 frame from a visitor.
pub const H2_FRAME_BYTES: u32 = 16 * 1024;
/// Bytes of a response buffered in an HTTP/2 stream: at most what it may send, and one block.
pub const H2_SEND_BUFFER: usize = super::BLOCK_BYTES;
/// Bytes below which a part of a block is copied instead of retaining the whole block.
pub const COPIED_BYTES: usize = 16 * 1024;
/// Bytes of responses that one connection holds.
pub const CONNECTION_FLIGHT_BYTES: u64 = 1_000_000;
/// Maximum wait of a response until others on its connection are read. A connection that reads nothing ends sooner.
pub const CONNECTION_FLIGHT_WAIT: Duration = CONNECTION_END;
/// Maximum wait of a response for other connections to release memory. Then it fails with 503, or is aborted.
pub const FLIGHT_WAIT: Duration = Duration::from_secs(10);
/// Maximum wait of a response for memory to send it.
pub const FLIGHT_PATIENCE: WaitLimits = WaitLimits { own: CONNECTION_FLIGHT_WAIT, others: FLIGHT_WAIT };
/// Maximum wait for memory to read a body. Short, because the part that has arrived blocks its connection. It is longer
/// for memory that others hold: those that do not go on lose it after [`STALL_UNDER_PRESSURE`].
pub const BODY_PATIENCE: WaitLimits = WaitLimits { own: Duration::from_secs(2), others: Duration::from_secs(5) };
/// The `Retry-After`, in seconds, of a response refused for lack of memory.
pub const FLIGHT_RETRY_SECONDS: u64 = 5;
/// Time after which a response that its visitor does not read releases what can be read again.
pub const PARK_AFTER: Duration = Duration::from_secs(1);
/// Bytes of HTTP/2 frames gathered before they are sent: those of TLS records that are sent together.
pub const GATHERED_BYTES: usize = RECORDS_BYTES;
/// Bytes of TLS records sent together: the default buffer of rustls.
pub const RECORDS_BYTES: usize = 64 * 1024;
/// Bytes of TLS records sent together, while memory is plentiful, of a body that continues. One large send wakes the
/// reader once; four smaller ones wake it four times.
pub const RECORDS_SPARE_BYTES: usize = 192 * 1024;
/// HTTP/2 control frames (pings, settings, priorities, unknown ones) that a visitor may send in a burst.
pub const H2_CONTROL_FRAMES: u32 = 100;
/// Control frames that a visitor may send per second, in addition to that burst.
pub const H2_CONTROL_FRAMES_PER_SECOND: u32 = 10;
/// Maximum of control frames that accompany a request, or data.
pub const H2_CONTROL_FRAMES_PER_REQUEST: u32 = 4;
/// Window updates that a visitor may send beyond those for data it received.
pub const H2_WINDOW_UPDATES: u32 = 1_000;
/// Window updates that may follow each write of ours.
pub const H2_WINDOW_UPDATES_PER_WRITE: u32 = 4;
/// Bytes written that allow one more window update.
pub const H2_WINDOW_UPDATE_BYTES: u32 = 128;
/// Maximum time for a visitor to receive `ENHANCE_YOUR_CALM`.
pub const H2_GOAWAY_WAIT: Duration = Duration::from_secs(1);
/// HTTP/2 streams that a visitor may reset before they are answered (rapid reset), and that it may make us reset.
pub const H2_RESETS: usize = 32;
/// Hours for which a TLS session ticket can be resumed.
pub const TICKET_HOURS: u64 = 6;
/// Bytes kept of a header line that arrives in parts.
pub const HEAD_LINE_BYTES: usize = 128;
/// Bytes of one discarded read at the end of a connection.
pub const LINGER_READ_BYTES: usize = 16 * 1024;
/// Bytes that are copied together for one write rather than passed as a list.
pub const JOINED_WRITE_BYTES: usize = 1024;
