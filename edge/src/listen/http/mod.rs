//! HTTP on a connection that stands: hyper, with its limits set, and an end to connections that idle or grow old.
//!
//! [`h1`] and [`h2`] hold what belongs to one version. Requests are answered by [`crate::front`]. Start with [`serve`].

mod h1;
mod h2;

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
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    front::{self, Body, Connection, Front},
    limits,
};

/// The version of HTTP that was agreed on.
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
            // See `h1::heads`: where the next request begins is not watched.
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
            let stream = h1::watched(stream, shared.had_body.clone(), shared.ambiguous.clone());
            let connection = Box::pin(h1::builder().serve_connection(TokioIo::new(stream), service));
            Box::pin(run(connection, http1::Connection::graceful_shutdown, grown_old(stop)))
        }
        Protocol::Http2 => {
            let stream = h2::Oversized::new(stream, shared.connection.is_own_over_tls());
            let over = async move {
                tokio::select! {
                    () = grown_old(stop) => {}
                    () = idle(&shared) => {}
                }
            };
            let connection = h2::Multiplexed::new(stream, |stream, executor| {
                h2::builder(executor).serve_connection(TokioIo::new(stream), service)
            });
            Box::pin(run(Box::pin(connection), |connection| connection.connection().graceful_shutdown(), over))
        }
    }
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
