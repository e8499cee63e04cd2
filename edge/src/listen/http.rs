//! HTTP on a connection that stands: hyper, with every limit it has, and an end to connections that idle or grow old.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ::http::{HeaderValue, Request, Response, header};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http_body::Body as _;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    heads,
    linger::Linger,
    multiplexed::{Begun, Multiplexed},
    patience::HeadTimer,
};
use crate::{
    front::{self, Body, Connection, Front},
    limits,
};

/// Which version of HTTP was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// One allocation a connection, which its requests share.
struct Shared {
    front: Arc<Front>,
    connection: Connection,
    requests: AtomicU64,
    /// Whether a request over HTTP/1.1 had a body.
    had_body: Arc<AtomicBool>,
    /// Whether one said its length in two ways.
    ambiguous: Arc<AtomicBool>,
}

impl Shared {
    async fn answer(&self, protocol: Protocol, request: Request<Incoming>) -> Response<Body> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if protocol == Protocol::Http1 && !request.body().is_end_stream() {
            return Box::pin(self.answer_with_body(request)).await;
        }
        self.front.answer(request, &self.connection).await
    }

    async fn answer_with_body(&self, request: Request<Incoming>) -> Response<Body> {
        self.had_body.store(true, Ordering::Relaxed);
        let in_chunks = request.headers().contains_key(header::TRANSFER_ENCODING);
        if in_chunks && self.ambiguous.load(Ordering::Relaxed) {
            return front::malformed();
        }
        let mut response = self.front.answer(request, &self.connection).await;
        if in_chunks {
            // See `heads`: where the next request begins is not watched.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Answers the requests of one connection until it ends, or `stop` asks it to.
// Boxed by hand: a future that is handed on from one function to the next is there once in each of them, and many
// connections do nothing else than be there.
pub(crate) fn serve<S>(
    stream: S,
    protocol: Protocol,
    connection: Connection,
    front: Arc<Front>,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (had_body, ambiguous) = Default::default();
    let shared = Arc::new(Shared { front, connection, requests: AtomicU64::new(0), had_body, ambiguous });
    let answering = shared.clone();
    let service = service_fn(move |request| {
        let shared = answering.clone();
        async move { Ok::<_, Infallible>(shared.answer(protocol, request).await) }
    });
    match protocol {
        Protocol::Http1 => {
            let stream = heads::watched(Linger::new(stream, shared.had_body.clone()), shared.ambiguous.clone());
            let connection = Box::pin(http1_builder().serve_connection(TokioIo::new(stream), service));
            Box::pin(run(connection, http1::Connection::graceful_shutdown, grown_old(stop)))
        }
        Protocol::Http2 => {
            let over = async move {
                tokio::select! {
                    () = grown_old(stop) => {}
                    () = idle(&shared) => {}
                }
            };
            let connection = Multiplexed::new(stream, |stream, executor| {
                http2_builder(executor).serve_connection(TokioIo::new(stream), service)
            });
            Box::pin(run(Box::pin(connection), |connection| connection.connection().graceful_shutdown(), over))
        }
    }
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(HeadTimer::default())
        .header_read_timeout(limits::REQUEST_HEAD)
        .max_headers(limits::HEAD_FIELDS)
        .max_buf_size(limits::HEAD_BYTES)
        .half_close(false);
    builder
}

fn http2_builder(executor: Begun) -> http2::Builder<Begun> {
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

async fn grown_old(stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = sleep(limits::CONNECTION_AGE) => {}
    }
}

/// HTTP/1.1 has its own end to idling: the limit for a request's head.
async fn idle(shared: &Shared) {
    let mut before = u64::MAX;
    loop {
        let requests = shared.requests.load(Ordering::Relaxed);
        if requests == before {
            return;
        }
        before = requests;
        sleep(limits::H2_IDLE).await;
    }
}

/// Runs the connection; when `over` comes it may finish what it has begun, and nothing else.
async fn run<C: Future>(mut connection: Pin<Box<C>>, end: impl FnOnce(Pin<&mut C>), over: impl Future<Output = ()>) {
    // Polled only when it was itself woken: a plain select would look at its timers at every byte of the connection.
    let mut over = pin!(FuturesUnordered::from_iter([over]));
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        _ = over.next() => end(connection.as_mut()),
    }
    let _ = timeout(limits::CONNECTION_END, connection).await;
}
