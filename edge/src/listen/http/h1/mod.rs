//! HTTP/1.1: hyper's limits, and what stands between it and the socket.
//!
//! What a request means is not known here. Start with [`Parkable`] and [`watched`].

mod charged;
mod heads;
mod linger;
mod oversized;
mod parking;
mod patience;

use std::sync::{Arc, atomic::AtomicBool};

use hyper::server::conn::http1;
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) use self::{charged::Charged, parking::Parkable};
use self::{heads::Heads, linger::Linger, oversized::Oversized, patience::HeadTimer};
use crate::{front::Form, limits};

/// The stream to give to hyper. At its end it lingers if `had_body` is set; it sets `ambiguous` once a request has said its
/// length in two ways. `own_form` is the form of the answers at the host that it leads to, where its
/// cookies are ours to clear.
pub(super) fn watched<S>(
    stream: S,
    own_form: Option<Form>,
    had_body: Arc<AtomicBool>,
    ambiguous: Arc<AtomicBool>,
) -> impl AsyncRead + AsyncWrite + Unpin
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let heads = Arc::new(Heads { ambiguous, ..Heads::default() });
    let stream = Linger::new(stream, had_body.clone());
    let watch = own_form.map(|form| (heads.clone(), form));
    heads::watched(Oversized::new(stream, watch, had_body), heads)
}

/// hyper's HTTP/1.1 with its limits; it waits for heads with `timer`.
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
