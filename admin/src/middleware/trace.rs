//! One span and one log line a request, without tokens, codes, passwords, queries and bodies.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use tracing::Instrument as _;

use super::request_id::RequestId;
use crate::metrics;

/// Middleware: logs method, path template, status and duration under the request's id.
pub async fn record(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request.extensions().get::<RequestId>().cloned();
    // The template, not the path: paths hold names and the secrets of invites.
    let path = request.extensions().get::<MatchedPath>().map_or("(unknown)", MatchedPath::as_str).to_owned();
    let path_is_health = path == "/health";
    let span = tracing::info_span!(
        "request",
        id = id.as_ref().map_or("", RequestId::as_str),
        method = %request.method(),
        path = path.as_str(),
    );
    async move {
        let method = metrics::method(request.method());
        let response = next.run(request).await;
        metrics::answered(&path, method, response.status(), started.elapsed());
        let millis = started.elapsed().as_secs_f64() * 1_000.0;
        let status = response.status().as_u16();
        let ms = format_args!("{millis:.1}");
        // Every edge asks for our health every second, so only a bad answer is worth a line.
        if path_is_health && response.status().is_success() {
            tracing::debug!(status, ms, "answered");
        } else {
            tracing::info!(status, ms, "answered");
        }
        response
    }
    .instrument(span)
    .await
}
