//! Reads the rest of a body that a handler left unread.
//!
//! Most clients read the response only after sending everything, and would see a reset if we closed earlier.
//!
//! An edge that expects `100 Continue` sends nothing of a body before it is read. If another admin might accept the
//! request ([`RetryElsewhere`]), the refusal leaves the body with the edge and tells it to try the other admin.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use admin_http::error::RetryElsewhere;
use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use domain::limits::MB;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use secrets::edge_proof;
use tokio::sync::oneshot;

const DRAIN_BYTES: u64 = 512 * MB;
const DRAIN_WAIT: Duration = Duration::from_secs(20);
/// The maximum pause within a discarded body: a client that sends nothing for longer is waiting for the response.
const DRAIN_PAUSE: Duration = Duration::from_secs(2);

/// Tells an edge that another admin may accept a request that this one refuses.
const ELSEWHERE: HeaderName = HeaderName::from_static("x-svc-elsewhere");

/// Middleware that reads the body to its end before sending the response, or closes the connection if the body exceeds
/// the limits. `Connection: close` keeps the client or edge from losing its next request on that connection.
pub async fn drain_unread_bodies(request: Request, next: Next) -> Response {
    let (is_of_edge, waits) = (request.headers().contains_key(edge_proof::HEADER), expects_continue(request.headers()));
    let (hand_back, mut unread) = oneshot::channel();
    let request =
        request.map(|body| Body::new(TrackedBody { body: Some(body), is_touched: false, hand_back: Some(hand_back) }));
    let mut response = next.run(request).await;
    let may_go_elsewhere = is_of_edge && response.extensions().get::<RetryElsewhere>().is_some();
    if may_go_elsewhere {
        response.headers_mut().insert(ELSEWHERE, HeaderValue::from_static("1"));
    }
    let Ok(UnreadBody { rest, is_touched }) = unread.try_recv() else { return response };
    let is_kept_by_edge = may_go_elsewhere && waits && !is_touched;
    // A client that already timed out gets no second wait.
    let is_over = !is_kept_by_edge && response.status() != StatusCode::REQUEST_TIMEOUT && drain(rest).await;
    if !is_over {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns whether the client waits for `100 Continue` before sending the body.
fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Discards the rest of a body. Returns whether it ended within the limits.
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

/// A body that is handed back if it is dropped before its end.
struct TrackedBody {
    /// `None` once the body has ended or failed.
    body: Option<Body>,
    /// Whether any of it was read.
    is_touched: bool,
    hand_back: Option<oneshot::Sender<UnreadBody>>,
}

/// The unread part of a request's body, and whether any of the body was read.
struct UnreadBody {
    rest: Body,
    is_touched: bool,
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.is_touched = true;
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

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !http_body::Body::is_end_stream(body))
            && let Some(hand_back) = self.hand_back.take()
        {
            // The receiver is gone if the request was cancelled.
            let _ = hand_back.send(UnreadBody { rest: body, is_touched: self.is_touched });
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
    use admin_http::error::{ApiError, Code};

    /// Returns the response, and how many of the body's ten chunks were read.
    async fn answer(service: Router) -> (Response, usize) {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let chunks = stream::iter(0..10).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>("chunk")
        });
        let request = Request::post("/").body(Body::from_stream(chunks)).unwrap();
        let response = service.layer(from_fn(drain_unread_bodies)).oneshot(request).await.unwrap();
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
    async fn an_edge_keeps_a_body_that_another_admin_may_take() {
        let refuses = |error: fn() -> ApiError| Router::new().route("/", post(async move || error()));
        let busy: fn() -> ApiError = || ApiError::new(Code::Busy, "").retry_elsewhere();
        let other: fn() -> ApiError = || ApiError::new(Code::Busy, "");
        for (error, of_edge, waits, drained, marked) in [
            (busy, true, true, false, true),
            (busy, true, false, true, true),
            (busy, false, true, true, false),
            (other, true, true, true, false),
        ] {
            let taken = Arc::new(AtomicUsize::new(0));
            let count = taken.clone();
            let chunks = stream::iter(0..10).map(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<_, std::io::Error>("chunk")
            });
            let mut request = Request::post("/").body(Body::from_stream(chunks)).unwrap();
            if of_edge {
                request.headers_mut().insert(edge_proof::HEADER, HeaderValue::from_static("proof"));
            }
            if waits {
                request.headers_mut().insert(header::EXPECT, HeaderValue::from_static("100-continue"));
            }
            let response = refuses(error).layer(from_fn(drain_unread_bodies)).oneshot(request).await.unwrap();
            assert_eq!(taken.load(Ordering::Relaxed) > 0, drained, "{of_edge} {waits}");
            assert_eq!(response.headers().contains_key(ELSEWHERE), marked, "{of_edge} {waits}");
            assert_eq!(response.headers().contains_key(header::CONNECTION), !drained, "{of_edge} {waits}");
        }
    }

    #[tokio::test]
    async fn a_client_that_timed_out_gets_no_second_wait() {
        let (response, taken) = answer(Router::new().route("/", post(async || StatusCode::REQUEST_TIMEOUT))).await;
        assert_eq!((taken, response.headers()[header::CONNECTION].as_bytes()), (0, &b"close"[..]));
    }
}
