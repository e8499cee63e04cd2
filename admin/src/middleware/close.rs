//! Reads the rest of a body that a handler did not read to its end.
//!
//! Most clients read the answer only once they have sent everything. Were the connection closed meanwhile, they would
//! see a reset instead of the reason.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use domain::limits::MB;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;

/// Most bytes of a body that are read and discarded.
const DRAIN_BYTES: u64 = 512 * MB;
/// Longest time for which a body is discarded.
const DRAIN_WAIT: Duration = Duration::from_secs(20);
/// Longest pause within a body that is discarded: a client that sends nothing for so long waits for the answer.
const DRAIN_PAUSE: Duration = Duration::from_secs(2);

/// Middleware: reads the body to its end before the answer goes out, or closes the connection when the body exceeds the
/// bounds. `Connection: close` keeps the client, or the edge, from sending its next request there and losing it.
pub async fn after_refused_bodies(request: Request, next: Next) -> Response {
    let (hand_back, mut unread) = oneshot::channel();
    let request = request.map(|body| Body::new(ReturnedBody { body: Some(body), hand_back: Some(hand_back) }));
    let mut response = next.run(request).await;
    let Ok(rest) = unread.try_recv() else { return response };
    // A client that already timed out gets no second wait.
    let is_over = response.status() != StatusCode::REQUEST_TIMEOUT && drain(rest).await;
    if !is_over {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Discards the rest of a body. Returns whether it ended within the bounds.
async fn drain(mut body: Body) -> bool {
    let to_the_end = async {
        let mut drained = 0;
        while drained <= DRAIN_BYTES {
            match tokio::time::timeout(DRAIN_PAUSE, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    drained += frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
                }
                Ok(ended) => return ended.is_none(),
                Err(_) => return false,
            }
        }
        false
    };
    tokio::time::timeout(DRAIN_WAIT, to_the_end).await.unwrap_or(false)
}

/// A body that is handed back when it is dropped before its end.
struct ReturnedBody {
    /// None once the body has ended or failed.
    body: Option<Body>,
    hand_back: Option<oneshot::Sender<Body>>,
}

impl http_body::Body for ReturnedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

impl Drop for ReturnedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !http_body::Body::is_end_stream(body))
            && let Some(hand_back) = self.hand_back.take()
        {
            // The receiver is gone when the request was cancelled.
            let _ = hand_back.send(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use axum::{Router, middleware::from_fn, routing::post};
    use futures_util::{StreamExt as _, stream};
    use tower::ServiceExt as _;

    use super::*;

    /// The answer, and how many of the body's ten chunks were taken.
    async fn answer(service: Router) -> (Response, usize) {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let chunks = stream::iter(0..10).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>("chunk")
        });
        let request = Request::post("/").body(Body::from_stream(chunks)).unwrap();
        let response = service.layer(from_fn(after_refused_bodies)).oneshot(request).await.unwrap();
        (response, taken.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn the_rest_of_a_body_is_read_to_its_end() {
        let refuses = Router::new().route("/", post(async || StatusCode::UNAUTHORIZED));
        let reads_one = Router::new().route(
            "/",
            post(async |body: Body| {
                body.into_data_stream().next().await;
                StatusCode::PAYLOAD_TOO_LARGE
            }),
        );
        for service in [refuses, reads_one] {
            let (response, taken) = answer(service).await;
            assert_eq!((taken, response.headers().get(header::CONNECTION)), (10, None));
        }
    }

    #[tokio::test]
    async fn a_client_that_timed_out_gets_no_second_wait() {
        let (response, taken) = answer(Router::new().route("/", post(async || StatusCode::REQUEST_TIMEOUT))).await;
        assert_eq!((taken, response.headers()[header::CONNECTION].as_bytes()), (0, &b"close"[..]));
    }
}
