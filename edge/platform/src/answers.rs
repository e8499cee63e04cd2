//! The edge's own responses at the platform's hosts, when admin cannot respond: in the API's format, or as a page.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use http_types::{HttpFault, SiteBody, X_REQUEST_ID, accepts_html, pages};

/// The paths of the platform's health check: at the API's host, and below `/api` at the console's.
const HEALTH_PATHS: [&str; 2] = ["/health", "/api/health"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlatformFailure {
    /// No admin is reachable.
    NoAdmin,
    /// The admin disconnected, and may have processed the request.
    Unanswered,
    /// The client, or all clients together, have the maximum of requests in flight.
    Busy,
    /// The request's body did not arrive in time.
    Late,
    /// The request's body broke off, mostly because the client has left.
    BrokenOff,
}

#[derive(Debug, Clone)]
pub(super) struct AnswerContext {
    is_head: bool,
    is_health: bool,
    wants_page: bool,
    /// The request's ID, which admin receives as well.
    id: HeaderValue,
}

impl AnswerContext {
    pub(super) fn is_health(&self) -> bool {
        self.is_health
    }

    pub(super) fn from_request(method: &Method, uri: &Uri, headers: &HeaderMap, id: HeaderValue) -> Self {
        let is_health = HEALTH_PATHS.contains(&uri.path());
        Self { is_head: method == Method::HEAD, is_health, wants_page: accepts_html(headers), id }
    }

    pub(super) fn failure_response(&self, failure: PlatformFailure) -> Response<SiteBody> {
        let mut response = match failure {
            // Health responses have no error envelope, like admin's own.
            _ if self.is_health => json(StatusCode::SERVICE_UNAVAILABLE, r#"{"ok":false}"#),
            PlatformFailure::NoAdmin | PlatformFailure::Unanswered if self.wants_page => pages::bad_gateway(),
            PlatformFailure::NoAdmin => json(
                StatusCode::BAD_GATEWAY,
                r#"{"error":{"code":"bad_gateway","message":"The control plane does not answer; try again in a moment."}}"#,
            ),
            PlatformFailure::Unanswered => json(
                StatusCode::BAD_GATEWAY,
                r#"{"error":{"code":"bad_gateway","message":"The control plane broke off; see whether it was done, then try again."}}"#,
            ),
            PlatformFailure::Busy if self.wants_page => pages::unavailable(),
            PlatformFailure::Busy => json(
                StatusCode::SERVICE_UNAVAILABLE,
                r#"{"error":{"code":"busy","message":"Too many requests are under way; try again in a moment."}}"#,
            ),
            PlatformFailure::BrokenOff => json(
                StatusCode::BAD_REQUEST,
                r#"{"error":{"code":"invalid_request","message":"The request's body broke off."}}"#,
            ),
            PlatformFailure::Late if self.wants_page => {
                pages::page(StatusCode::REQUEST_TIMEOUT, "Too slow", "The request did not arrive in time.")
            }
            PlatformFailure::Late => json(
                StatusCode::REQUEST_TIMEOUT,
                r#"{"error":{"code":"request_timeout","message":"The request's body did not arrive in time."}}"#,
            ),
        };
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, self.id.clone());
        match failure {
            // The API description lists it without this header, like the healthy response.
            _ if self.is_health => drop(headers.remove(header::CACHE_CONTROL)),
            PlatformFailure::NoAdmin | PlatformFailure::Unanswered | PlatformFailure::Busy => {
                headers.insert(header::RETRY_AFTER, limits::PLATFORM_RETRY_AFTER.as_secs().into());
            }
            // The rest of the body must not be read as the next request.
            PlatformFailure::Late | PlatformFailure::BrokenOff => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
        }
        if self.is_head { pages::seen_by(&Method::HEAD, response) } else { response }
    }
}

/// Returns the response to a faulty request with this `id`, in the API's format.
pub fn refusal(fault: HttpFault, id: HeaderValue) -> Response<Bytes> {
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
            ("/me", PlatformFailure::NoAdmin, 502),
            ("/me", PlatformFailure::Unanswered, 502),
            ("/me", PlatformFailure::Busy, 503),
            ("/me", PlatformFailure::Late, 408),
            ("/me", PlatformFailure::BrokenOff, 400),
            ("/health", PlatformFailure::NoAdmin, 503),
            ("/api/health", PlatformFailure::Busy, 503),
        ] {
            for accept in ["text/html", "application/json"] {
                let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
                let id = HeaderValue::from_static("req_0123456789");
                let response = AnswerContext::from_request(&Method::GET, &Uri::from_static(path), &headers, id.clone())
                    .failure_response(failure);
                assert_eq!(response.status().as_u16(), status, "{path} {failure:?}");
                assert_eq!(response.headers().get(X_REQUEST_ID), Some(&id), "{path} {failure:?}");
                let is_page = response.headers()[header::CONTENT_TYPE].as_bytes().starts_with(b"text/html");
                let has_page = path == "/me" && failure != PlatformFailure::BrokenOff;
                assert_eq!(is_page, accept == "text/html" && has_page, "{path} {failure:?}");
            }
        }
    }
}
