//! HTTP/1.1: hyper's limits, and the layers between it and the socket.
//!
//! Request semantics are handled elsewhere. Start with [`ParkableConnection`] and [`watched`].

mod charged;
mod heads;
mod linger;
mod oversized;
mod parking;
mod patience;

use std::sync::{Arc, atomic::AtomicBool};

use front::ResponseForm;
use hyper::server::conn::http1;
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) use self::{charged::ChargedBody, parking::ParkableConnection};
use self::{heads::HeadFindings, linger::LingeringStream, oversized::RefusalRewriter, patience::HeadTimer};

/// Wraps the stream for hyper.
///
/// It lingers at its end if `had_body` is set, and sets `ambiguous` once a request has stated its length in two ways.
/// `own_form` is the form of responses at the connection's host, if we may clear its cookies.
pub(super) fn watched<S>(
    stream: S,
    own_form: Option<ResponseForm>,
    had_body: Arc<AtomicBool>,
    ambiguous: Arc<AtomicBool>,
) -> impl AsyncRead + AsyncWrite + Unpin
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let heads = Arc::new(HeadFindings { ambiguous, ..HeadFindings::default() });
    let stream = LingeringStream::new(stream, had_body.clone());
    let watch = own_form.map(|form| (heads.clone(), form));
    heads::watched(RefusalRewriter::new(stream, watch, had_body), heads)
}

/// Returns hyper's HTTP/1.1 with its limits; it waits for heads with `timer`.
fn builder(timer: HeadTimer) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(timer)
        .header_read_timeout(limits::REQUEST_HEAD)
        .max_headers(limits::HEAD_FIELDS)
        .max_buf_size(limits::HEAD_BYTES)
        .half_close(false);
    builder
}
