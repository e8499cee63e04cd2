//! Request timeouts: if Postgres becomes unreachable, pending queries are never answered.

use std::{pin::pin, time::Duration};

use admin_http::{error::ApiError, extract::BODY_TIMEOUT};
use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http_body_util::BodyExt as _;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Timeout of a handler that uses only Postgres and Redis. Exceeds Postgres' own statement timeout of 15 seconds.
pub const INTERNAL_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of a handler that also depends on others: the code host, the payment provider, the VAT registry, DNS, the
/// store. It exceeds the handler's own waits for them.
pub const EXTERNAL_TIMEOUT: Duration = Duration::from_secs(90);

/// Middleware that drops the handler if it has not responded `within` that time after the body could have been read.
pub async fn with_timeout(State(within): State<Duration>, request: Request, next: Next) -> Result<Response, ApiError> {
    let (read, has_body) = (CancellationToken::new(), !http_body::Body::is_end_stream(request.body()));
    let unread = read.clone().drop_guard();
    // The closure is dropped with the body, that is, when nothing reads it any more.
    let request = request.map(|body| {
        Body::new(body.map_err(move |error| {
            let _held = &unread;
            error
        }))
    });
    let mut answer = pin!(next.run(request));
    if has_body {
        tokio::select! {
            response = &mut answer => return Ok(response),
            _ = timeout(BODY_TIMEOUT, read.cancelled()) => {}
        }
    }
    let late = |_| ApiError::database_unavailable().caused_by(anyhow::anyhow!("no answer within {within:?}"));
    timeout(within, answer).await.map_err(late)
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        body::Bytes,
        http::StatusCode,
        middleware::from_fn_with_state,
        routing::{get, post},
    };
    use tokio::time::{Instant, sleep};
    use tower::ServiceExt as _;

    use super::*;

    async fn status_and_time(handler: axum::routing::MethodRouter, request: Request) -> (StatusCode, Duration) {
        let start = Instant::now();
        let service = Router::new().route("/", handler).layer(from_fn_with_state(INTERNAL_TIMEOUT, with_timeout));
        (service.oneshot(request).await.unwrap().status(), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_never_answers_is_given_up() {
        let never = get(std::future::pending::<()>);
        let given_up = status_and_time(never, Request::get("/").body(Body::empty()).unwrap()).await;
        assert_eq!(given_up, (StatusCode::SERVICE_UNAVAILABLE, INTERNAL_TIMEOUT));
        let in_time = get(async || sleep(INTERNAL_TIMEOUT / 2).await);
        let answered = status_and_time(in_time, Request::get("/").body(Body::empty()).unwrap()).await;
        assert_eq!(answered, (StatusCode::OK, INTERNAL_TIMEOUT / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_body_does_not_count() {
        let slow = || {
            let chunks = futures_util::stream::once(async {
                sleep(BODY_TIMEOUT / 2).await;
                Ok::<_, std::io::Error>("late")
            });
            Request::post("/").body(Body::from_stream(chunks)).unwrap()
        };
        let reads_and_waits = post(async |_: Bytes| std::future::pending::<()>().await);
        let given_up = status_and_time(reads_and_waits, slow()).await;
        assert_eq!(given_up, (StatusCode::SERVICE_UNAVAILABLE, BODY_TIMEOUT / 2 + INTERNAL_TIMEOUT));
        let never_reads = post(async |request: Request| {
            std::future::pending::<()>().await;
            drop(request);
        });
        let given_up = status_and_time(never_reads, slow()).await;
        assert_eq!(given_up, (StatusCode::SERVICE_UNAVAILABLE, BODY_TIMEOUT + INTERNAL_TIMEOUT));
    }
}
