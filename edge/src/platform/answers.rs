//! What the edge itself answers at the hosts of the platform, where admin cannot: in the API's shape, or as a page.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};

use crate::{
    http::{Fault, SiteBody, X_REQUEST_ID, accepts_html, pages},
    limits,
};

/// Where the platform's health is asked for: at the API's host, and below `/api` at the console's.
const HEALTH_PATHS: [&str; 2] = ["/health", "/api/health"];

/// Why admin does not answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// No admin answers.
    NoAdmin,
    /// The admin that was asked broke off, and may have done what it was asked for.
    Unanswered,
    /// The client, or everybody together, has as many requests in flight as may be.
    Busy,
    /// The request's body did not come in time.
    Late,
}

/// What an answer depends on of its request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    is_head: bool,
    is_health: bool,
    wants_page: bool,
    /// The request's id, which admin has been told as well.
    id: HeaderValue,
}

impl Asked {
    /// Whether the platform's health is asked for.
    pub(super) fn is_health(&self) -> bool {
        self.is_health
    }

    /// What matters of a request whose id is `id`.
    pub(super) fn of(method: &Method, uri: &Uri, headers: &HeaderMap, id: HeaderValue) -> Self {
        let is_health = HEALTH_PATHS.contains(&uri.path());
        Self { is_head: method == Method::HEAD, is_health, wants_page: accepts_html(headers), id }
    }

    /// The answer to a request that failed.
    pub(super) fn failed(&self, failure: Failure) -> Response<SiteBody> {
        let mut response = match failure {
            // Its answer has no error in it, as admin's own.
            _ if self.is_health => json(StatusCode::SERVICE_UNAVAILABLE, r#"{"ok":false}"#),
            Failure::NoAdmin | Failure::Unanswered if self.wants_page => pages::bad_gateway(),
            Failure::NoAdmin => json(
                StatusCode::BAD_GATEWAY,
                r#"{"error":{"code":"bad_gateway","message":"The control plane does not answer; try again in a moment."}}"#,
            ),
            Failure::Unanswered => json(
                StatusCode::BAD_GATEWAY,
                r#"{"error":{"code":"bad_gateway","message":"The control plane broke off; see whether it was done, then try again."}}"#,
            ),
            Failure::Busy if self.wants_page => pages::unavailable(),
            Failure::Busy => json(
                StatusCode::SERVICE_UNAVAILABLE,
                r#"{"error":{"code":"busy","message":"Too many requests are under way; try again in a moment."}}"#,
            ),
            Failure::Late if self.wants_page => {
                pages::page(StatusCode::REQUEST_TIMEOUT, "Too slow", "The request did not arrive in time.")
            }
            Failure::Late => json(
                StatusCode::REQUEST_TIMEOUT,
                r#"{"error":{"code":"request_timeout","message":"The request's body did not arrive in time."}}"#,
            ),
        };
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, self.id.clone());
        match failure {
            // Described without it, as the answer that all is well.
            _ if self.is_health => drop(headers.remove(header::CACHE_CONTROL)),
            Failure::NoAdmin | Failure::Unanswered | Failure::Busy => {
                headers.insert(header::RETRY_AFTER, limits::PLATFORM_RETRY_AFTER.as_secs().into());
            }
            // What still comes of the body is no next request.
            Failure::Late => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
        }
        if self.is_head { pages::seen_by(&Method::HEAD, response) } else { response }
    }
}

/// The answer to a request with a fault, in the API's shape. The request's id is `id`.
pub(crate) fn refusal(fault: Fault, id: HeaderValue) -> Response<Bytes> {
    let error = serde_json::json!({ "error": { "code": "invalid_request", "message": fault.message() } });
    let mut response = in_json(fault.status(), error.to_string());
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

fn json(status: StatusCode, text: &'static str) -> Response<SiteBody> {
    in_json(status, text).map(SiteBody::from)
}

fn in_json(status: StatusCode, text: impl Into<Bytes>) -> Response<Bytes> {
    let text = text.into();
    let length = text.len();
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CACHE_CONTROL, pages::NO_STORE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_carries_the_requests_id() {
        for (path, failure, status) in [
            ("/me", Failure::NoAdmin, 502),
            ("/me", Failure::Unanswered, 502),
            ("/me", Failure::Busy, 503),
            ("/me", Failure::Late, 408),
            ("/health", Failure::NoAdmin, 503),
            ("/api/health", Failure::Busy, 503),
        ] {
            for accept in ["text/html", "application/json"] {
                let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
                let id = HeaderValue::from_static("req_0123456789");
                let response = Asked::of(&Method::GET, &Uri::from_static(path), &headers, id.clone()).failed(failure);
                assert_eq!(response.status().as_u16(), status, "{path} {failure:?}");
                assert_eq!(response.headers().get(X_REQUEST_ID), Some(&id), "{path} {failure:?}");
                let is_page = response.headers()[header::CONTENT_TYPE].as_bytes().starts_with(b"text/html");
                assert_eq!(is_page, accept == "text/html" && path == "/me", "{path} {failure:?}");
            }
        }
    }
}
