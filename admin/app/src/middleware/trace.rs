//! One span and one log line per request, without tokens, codes, passwords, queries and bodies.
//!
//! Requests that anybody can send without limit get no line at `INFO`: those refused for their rate or credential, and
//! those to unknown paths. Other anonymous requests get a limited number of lines per minute. The number of omitted
//! lines is logged once a minute, and `svc_api_requests_total` counts all requests.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request},
    http::StatusCode,
    middleware::Next,
    response::Response,
};
use telemetry::{OutageLine, OutageLog};
use tracing::Instrument as _;

use super::{client::ClientAddress, rate_limit::AuthenticatedRequest, request_id::RequestId};
use crate::{metrics, rates::AnonymousLogLimit};

/// Stands for the template of unknown paths.
const UNKNOWN: &str = "(unknown)";

/// Middleware that logs method, path template, status and duration under the request's id.
pub async fn record(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request.extensions().get::<RequestId>().cloned();
    // Log the template instead of the path, which may contain names and invite secrets.
    let path = request.extensions().get::<MatchedPath>().map_or(UNKNOWN, MatchedPath::as_str).to_owned();
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
        metrics::request_answered(&path, method, response.status(), started.elapsed());
        let millis = started.elapsed().as_secs_f64() * 1_000.0;
        let status = response.status().as_u16();
        let ms = format_args!("{millis:.1}");
        // Every edge checks our health every second, so only failures are logged.
        let is_routine = path_is_health && response.status().is_success();
        if !is_routine && is_logged(&path, &response) {
            tracing::info!(status, ms, "answered");
        } else {
            tracing::debug!(status, ms, "answered");
            if !is_routine {
                log_omitted();
            }
        }
        response
    }
    .instrument(span)
    .await
}

/// Returns whether a request gets its own log line.
fn is_logged(path: &str, response: &Response) -> bool {
    static STRANGERS: AnonymousLogLimit = AnonymousLogLimit::new();
    if path == UNKNOWN || matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS) {
        return false;
    }
    let told = response.extensions();
    told.get::<AuthenticatedRequest>().is_some()
        || STRANGERS.admit(told.get::<ClientAddress>().map(|&ClientAddress(address)| address.into()))
}

/// Logs, once a minute, how many requests were omitted from the log since the last time.
fn log_omitted() {
    static LEFT_OUT: OutageLog = OutageLog::new();
    if let Some(OutageLine { left_out, .. }) = LEFT_OUT.record_failure() {
        tracing::info!(
            parent: None,
            left_out,
            "requests that are refused, lead nowhere or are one client's many have no lines; metrics count them, RUST_LOG=debug shows them"
        );
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, response::IntoResponse as _};

    use super::*;

    fn answer(status: StatusCode) -> Response {
        (status, Body::empty()).into_response()
    }

    #[test]
    fn what_is_refused_or_leads_nowhere_has_no_line() {
        for status in [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS] {
            let mut refused = answer(status);
            refused.extensions_mut().insert(AuthenticatedRequest);
            assert!(!is_logged("/projects", &refused), "{status}");
        }
        assert!(!is_logged(UNKNOWN, &answer(StatusCode::NOT_FOUND)));
    }

    #[test]
    fn who_pays_has_a_line_for_each_request_and_strangers_have_a_few() {
        let address = ClientAddress([192, 0, 2, 1].into());
        let lines = |is_paid: bool| {
            let logged = |_: &i32| {
                let mut response = answer(StatusCode::OK);
                response.extensions_mut().insert(address);
                if is_paid {
                    response.extensions_mut().insert(AuthenticatedRequest);
                }
                is_logged("/docs", &response)
            };
            (0..1_000).filter(logged).count()
        };
        assert_eq!(lines(true), 1_000);
        // A new minute may start meanwhile.
        assert!((60..=120).contains(&lines(false)));
    }
}
