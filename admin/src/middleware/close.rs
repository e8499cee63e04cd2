//! Reads what a handler left unread of a request's body.
//!
//! Most clients read the answer only once they have sent everything. A connection that is closed under them shows them
//! a reset instead of the reason.

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

/// How much of a body is read and thrown away, and for how long.
const DRAIN_BYTES: u64 = 512 * MB;
const DRAIN_WAIT: Duration = Duration::from_secs(20);
/// Who sends nothing for so long is waiting for the answer.
const DRAIN_PAUSE: Duration = Duration::from_secs(2);

/// Middleware: reads the body to its end before the answer goes out; beyond the bounds, ends the connection. Saying so
/// keeps the client, or the edge, from sending its next request there and losing it.
pub async fn after_refused_bodies(request: Request, next: Next) -> Response {
    let (give_back, mut unread) = oneshot::channel();
    let request = request.map(|body| Body::new(Lent { body: Some(body), give_back: Some(give_back) }));
    let mut response = next.run(request).await;
    let Ok(rest) = unread.try_recv() else { return response };
    // Who was too slow is not waited for again.
    let is_over = response.status() != StatusCode::REQUEST_TIMEOUT && drain(rest).await;
    if !is_over {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether the body came to its end within the bounds.
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

/// A body that comes back when it is dropped before its end.
struct Lent {
    /// None once it has ended, or broken off.
    body: Option<Body>,
    give_back: Option<oneshot::Sender<Body>>,
}

impl http_body::Body for Lent {
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

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !http_body::Body::is_end_stream(body))
            && let Some(give_back) = self.give_back.take()
        {
            // Nobody waits for it when the request was given up.
            let _ = give_back.send(body);
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
    async fn what_the_handler_leaves_is_read_to_the_end() {
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
    async fn who_was_too_slow_is_not_waited_for_again() {
        let (response, taken) = answer(Router::new().route("/", post(async || StatusCode::REQUEST_TIMEOUT))).await;
        assert_eq!((taken, response.headers()[header::CONNECTION].as_bytes()), (0, &b"close"[..]));
    }
}
