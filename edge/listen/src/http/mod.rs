//! HTTP on an established connection: hyper with its limits, and the end of connections that idle or grow old.
//!
//! [`h1`] and [`h2`] hold what is specific to one version. [`front`] answers the requests. Start with [`serve`].

mod h1;
mod h2;

use std::{
    convert::Infallible,
    future::Pending,
    iter,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ::http::{HeaderValue, Request, Response, header};
use bytes::Bytes;
use edge_metrics as metrics;
use fairness::budget::ByteGrant;
use front::{ClientConnection, HostRouter, ResponseBody};
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use http_types::{BodyError, charged_bytes, charged_head, pinned};
use hyper::{body::Incoming, service::service_fn};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::h1::{ChargedBody, ParkableConnection};
use super::tcp::ConnectionSeat;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// The state that a connection's requests share, in one allocation.
struct ConnectionShared {
    front: Arc<HostRouter>,
    connection: ClientConnection,
    seat: Arc<ConnectionSeat>,
    had_body: Arc<AtomicBool>,
    ambiguous: Arc<AtomicBool>,
}

impl ConnectionShared {
    /// Answers a request. Returns the response, and the grant for its first bytes.
    async fn answer<B>(&self, protocol: Protocol, request: Request<B>) -> (Response<ResponseBody>, Option<ByteGrant>)
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        self.seat.requests.fetch_add(1, Ordering::Relaxed);
        self.seat.tally.count_request();
        let has_body = protocol == Protocol::Http1 && !request.body().is_end_stream();
        if has_body {
            self.had_body.store(true, Ordering::Relaxed);
        }
        let is_chunked = has_body && request.headers().contains_key(header::TRANSFER_ENCODING);
        let mut response = if is_chunked && self.ambiguous.load(Ordering::Relaxed) {
            front::malformed_response(&request, &self.connection)
        } else {
            self.front.answer(request, &self.connection).await
        };
        if is_chunked {
            // See `h1::heads`: the start of the next request is not known.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let first = response.body().left().min(limits::BLOCK_BYTES as u64);
        let head = charged_head(response.headers());
        // A client of HTTP/2 may leave the heads of many responses unread, one of HTTP/1.1 a single one.
        let is_small = first == 0 && (head == 0 || protocol == Protocol::Http1);
        // A paced response holds nothing while it waits.
        if is_small || response.body().is_paced() {
            return (response, None);
        }
        if first > 0 {
            response.body_mut().read_ahead(&self.connection.account);
        }
        let bytes = head + charged_bytes(usize::try_from(first).unwrap_or(limits::BLOCK_BYTES));
        if let Ok(grant) = self.connection.account.try_take(bytes) {
            return (response, Some(grant));
        }
        Box::pin(self.admit(response, bytes)).await
    }

    /// Waits for memory of `bytes` to send `response`. Before its start the response can still be replaced.
    async fn admit(
        &self,
        mut response: Response<ResponseBody>,
        bytes: u64,
    ) -> (Response<ResponseBody>, Option<ByteGrant>) {
        response.body_mut().park();
        if let Ok(grant) = self.connection.account.take(bytes, limits::FLIGHT_PATIENCE).await {
            return (response, Some(grant));
        }
        metrics::exhausted();
        (front::exhausted_response(response), None)
    }
}

/// Answers the requests of one connection until it ends, or `stop` requests its end.
// Boxed by hand: a future passed between functions takes space in each, and most connections only idle.
pub(crate) fn serve<S>(
    stream: S,
    protocol: Protocol,
    connection: ClientConnection,
    seat: Arc<ConnectionSeat>,
    front: Arc<HostRouter>,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (had_body, ambiguous) = Default::default();
    let shared = Arc::new(ConnectionShared { front, connection, seat: seat.clone(), had_body, ambiguous });
    match protocol {
        Protocol::Http1 => {
            let stream =
                h1::watched(stream, shared.connection.own_form(), shared.had_body.clone(), shared.ambiguous.clone());
            let had_body = shared.had_body.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let shared = shared.clone();
                // hyper reserves space for this future for the connection's lifetime: for a pointer, instead of 4 KB.
                pinned(|| async move {
                    let (response, grant) = shared.answer(protocol, request).await;
                    Ok::<_, Infallible>(response.map(|body| ChargedBody::new(body, shared, grant)))
                })
            });
            let connection = Box::pin(ParkableConnection::new(stream, service, had_body));
            Box::pin(run(connection, ParkableConnection::graceful_shutdown, ended(seat, stop), None::<Pending<()>>))
        }
        Protocol::Http2 => Box::pin(async move {
            let stream = h2::CookieHeadGuard::new(stream, shared.connection.own_form());
            let Some(mut connection) = h2::handshake(stream, shared.clone()).await else { return };
            let dead = h2::ping_timeout(connection.ping_pong());
            let over = async {
                tokio::select! {
                    () = ended(seat, stop) => {}
                    () = idle(&shared) => {}
                }
            };
            run(Box::pin(connection), |connection| connection.get_mut().graceful_shutdown(), over, Some(dead)).await;
        }),
    }
}

/// Waits until the connection has to end: the edge stops, the connection has grown old, or others need its room.
async fn ended(seat: Arc<ConnectionSeat>, stop: CancellationToken) {
    tokio::select! {
        () = async { stop.cancelled().await; first_request(&seat).await } => {}
        () = seat.end_requested() => {}
        () = sleep(limits::CONNECTION_AGE) => {}
    }
}

/// Waits for the first request, at most [`limits::FIRST_REQUEST`]: clients take an earlier close for a failure.
async fn first_request(seat: &ConnectionSeat) {
    let brought = async {
        while seat.requests.load(Ordering::Relaxed) == 0 {
            sleep(limits::FIRST_REQUEST_CHECK_EVERY).await;
        }
    };
    let _ = timeout(limits::FIRST_REQUEST, brought).await;
}

/// Waits until an HTTP/2 connection idles. HTTP/1.1 is limited by the timeout for a request's head instead.
async fn idle(shared: &ConnectionShared) {
    let mut before = u64::MAX;
    loop {
        let requests = shared.seat.requests.load(Ordering::Relaxed);
        if requests == before {
            return;
        }
        before = requests;
        sleep(limits::H2_IDLE).await;
    }
}

enum EndReason {
    /// It may finish its started requests, and no others.
    Over,
    Dead,
}

async fn run<C: Future>(
    mut connection: Pin<Box<C>>,
    end: impl FnOnce(Pin<&mut C>),
    over: impl Future<Output = ()> + Send,
    dead: Option<impl Future<Output = ()> + Send>,
) {
    let over = over.map(|()| EndReason::Over).left_future();
    let dead = dead.map(|dead| dead.map(|()| EndReason::Dead).right_future());
    // Polled only when they were woken themselves: a plain select would check its timers at every byte.
    let mut ends: FuturesUnordered<_> = iter::once(over).chain(dead).collect();
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        Some(why) = ends.next() => match why {
            EndReason::Over => end(connection.as_mut()),
            EndReason::Dead => return,
        },
    }
    tokio::select! {
        biased;
        _ = timeout(limits::CONNECTION_END, connection) => {}
        Some(_) = ends.next() => {}
    }
}
