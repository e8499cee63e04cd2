//! HTTP/2: hyper's limits, and requests that are answered in the connection's own task.
//!
//! What a request means is not known here. Start with [`builder`] and [`Multiplexed`].

mod multiplexed;
mod oversized;

use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;

use self::multiplexed::Begun;
pub(super) use self::{multiplexed::Multiplexed, oversized::Oversized};
use crate::limits;

/// hyper's HTTP/2 with its limits.
pub(super) fn builder(executor: Begun) -> http2::Builder<Begun> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::H2_STREAMS)
        .max_header_list_size(limits::H2_HEAD_BYTES)
        .initial_stream_window_size(limits::H2_STREAM_WINDOW)
        .initial_connection_window_size(limits::H2_CONNECTION_WINDOW)
        .max_frame_size(limits::H2_FRAME_BYTES)
        .max_send_buf_size(limits::H2_SEND_BUFFER)
        .max_pending_accept_reset_streams(limits::H2_RESETS)
        .max_local_error_reset_streams(limits::H2_RESETS)
        .keep_alive_interval(limits::H2_PING_EVERY)
        .keep_alive_timeout(limits::H2_PING_WAIT);
    builder
}
