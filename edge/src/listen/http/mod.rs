//! HTTP on a connection that stands: hyper, with its limits set, and an end to connections that idle or grow old.
//!
//! [`h1`] and [`h2`] hold what belongs to one version. Requests are answered by [`crate::front`]. Start with [`serve`].

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
use fairness::budget::Grant;
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use hyper::{body::Incoming, service::service_fn};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::h1::{Charged, Parkable};
use super::tcp::Seat;
use crate::{
    front::{self, Body, Connection, Front},
    http::{BodyError, charge, pinned},
    limits, metrics,
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
    seat: Arc<Seat>,
    /// Whether a request over HTTP/1.1 had a body.
    had_body: Arc<AtomicBool>,
    /// Whether one said its length in two ways.
    ambiguous: Arc<AtomicBool>,
}

impl Shared {
    /// The answer to a request, and the grant for its first bytes.
    async fn answer<B>(&self, protocol: Protocol, request: Request<B>) -> (Response<Body>, Option<Grant>)
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        self.seat.requests.fetch_add(1, Ordering::Relaxed);
        self.seat.tally.asked();
        let has_body = protocol == Protocol::Http1 && !request.body().is_end_stream();
        if has_body {
            self.had_body.store(true, Ordering::Relaxed);
        }
        let is_chunked = has_body && request.headers().contains_key(header::TRANSFER_ENCODING);
        let mut response = if is_chunked && self.ambiguous.load(Ordering::Relaxed) {
            front::malformed(&request, &self.connection)
        } else {
            self.front.answer(request, &self.connection).await
        };
        if is_chunked {
            // See `h1::heads`: where the next request begins is not watched.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let first = response.body().left().min(limits::BLOCK_BYTES as u64);
        // Of an answer at a pace nothing is held while it waits.
        if first == 0 || response.body().is_paced() {
            return (response, None);
        }
        response.body_mut().read_ahead(&self.connection.account);
        let bytes = charge(usize::try_from(first).unwrap_or(limits::BLOCK_BYTES));
        if let Ok(grant) = self.connection.account.try_take(bytes) {
            return (response, Some(grant));
        }
        Box::pin(self.admit(response, bytes)).await
    }

    /// Waits for `bytes` to send `response` with. Until it is begun it can be another.
    async fn admit(&self, mut response: Response<Body>, bytes: u64) -> (Response<Body>, Option<Grant>) {
        response.body_mut().park();
        if let Ok(grant) = self.connection.account.take(bytes, limits::FLIGHT_PATIENCE).await {
            return (response, Some(grant));
        }
        metrics::exhausted();
        (front::exhausted(response), None)
    }
}

/// Answers the requests of one connection until it ends, or `stop` asks it to.
// Boxed by hand: a future that is handed on from one function to the next is there once in each of them, and many
// connections do nothing else than be there.
pub(crate) fn serve<S>(
    stream: S,
    protocol: Protocol,
    connection: Connection,
    seat: Arc<Seat>,
    front: Arc<Front>,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (had_body, ambiguous) = Default::default();
    let shared = Arc::new(Shared { front, connection, seat: seat.clone(), had_body, ambiguous });
    match protocol {
        Protocol::Http1 => {
            let stream =
                h1::watched(stream, shared.connection.own_form(), shared.had_body.clone(), shared.ambiguous.clone());
            let had_body = shared.had_body.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let shared = shared.clone();
                // hyper keeps room for it as long as the connection lives: for an address, not for 4 KB.
                pinned(|| async move {
                    let (response, grant) = shared.answer(protocol, request).await;
                    Ok::<_, Infallible>(response.map(|body| Charged::new(body, shared, grant)))
                })
            });
            let connection = Box::pin(Parkable::new(stream, service, had_body));
            Box::pin(run(connection, Parkable::graceful_shutdown, ended(seat, stop), None::<Pending<()>>))
        }
        Protocol::Http2 => Box::pin(async move {
            let stream = h2::Oversized::new(stream, shared.connection.own_form());
            let Some(mut connection) = h2::greet(stream, shared.clone()).await else { return };
            let dead = h2::unanswered(connection.ping_pong());
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

/// The connection has to end: we stop, it has grown old, or others need its room.
async fn ended(seat: Arc<Seat>, stop: CancellationToken) {
    tokio::select! {
        () = async { stop.cancelled().await; first_request(&seat).await } => {}
        () = seat.asked() => {}
        () = sleep(limits::CONNECTION_AGE) => {}
    }
}

/// Waits until the connection has brought its first request, at most [`limits::FIRST_REQUEST`]. A client that has just connected
/// has not been told anything: it takes a connection that is closed for one that failed.
async fn first_request(seat: &Seat) {
    let brought = async {
        while seat.requests.load(Ordering::Relaxed) == 0 {
            sleep(limits::FIRST_REQUEST_LOOK).await;
        }
    };
    let _ = timeout(limits::FIRST_REQUEST, brought).await;
}

/// HTTP/1.1 has its own end to idling: the limit for a request's head.
async fn idle(shared: &Shared) {
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

/// Why a connection is ended.
enum End {
    /// It may finish what it has begun, and nothing else.
    Over,
    /// Nobody is there.
    Dead,
}

/// Runs the connection until `over` comes, or `dead`.
async fn run<C: Future>(
    mut connection: Pin<Box<C>>,
    end: impl FnOnce(Pin<&mut C>),
    over: impl Future<Output = ()> + Send,
    dead: Option<impl Future<Output = ()> + Send>,
) {
    let over = over.map(|()| End::Over).left_future();
    let dead = dead.map(|dead| dead.map(|()| End::Dead).right_future());
    // Polled only when they were themselves woken: a plain select would look at its timers at every byte of the connection.
    let mut ends: FuturesUnordered<_> = iter::once(over).chain(dead).collect();
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        Some(why) = ends.next() => match why {
            End::Over => end(connection.as_mut()),
            End::Dead => return,
        },
    }
    tokio::select! {
        biased;
        _ = timeout(limits::CONNECTION_END, connection) => {}
        Some(_) = ends.next() => {}
    }
}
