//! `X-Request-Id`, which identifies a request in the log.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use rand::RngExt as _;

/// The header that carries the id.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_LEN: usize = 128;

/// The request's id, stored in its extensions.
#[derive(Debug, Clone)]
pub struct RequestId(pub HeaderValue);

impl RequestId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

/// Middleware that accepts the request's id or creates one, and adds it to the response.
pub async fn assign(mut request: Request, next: Next) -> Response {
    let id = accepted_id(request.headers()).unwrap_or_else(made_up);
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

/// Returns a request's id if it is safe in logs and headers.
fn accepted_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let harmless = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    headers
        .get(X_REQUEST_ID)
        .filter(|id| (8..=MAX_LEN).contains(&id.len()) && id.as_bytes().iter().all(|&b| harmless(b)))
        .cloned()
}

fn made_up() -> HeaderValue {
    let bytes: [u8; 12] = rand::rng().random();
    HeaderValue::from_str(&format!("req_{}", hex::encode(bytes))).unwrap_or(HeaderValue::from_static("req_unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_ids_are_taken_over() {
        let headers = |id: &str| HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_str(id).unwrap())]);
        assert!(accepted_id(&headers("0123-abcd_EF.9")).is_some());
        for bad in ["short", "has a space in it", "<script>alert(1)</script>", &"x".repeat(129)] {
            assert!(accepted_id(&headers(bad)).is_none(), "{bad}");
        }
        assert_ne!(made_up(), made_up());
    }
}
