//! CORS: browser pages may call the gateway only from origins that the operator allows (by default none).

use http::{HeaderMap, HeaderValue, Method, header, request::Parts};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST");
const MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("3600");
pub(super) const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "x-request-id, request-id, x-svc-warning, x-svc-token-count, x-svc-provider, x-svc-completion, x-svc-cost, retry-after, \
     retry-after-ms, x-should-retry, allow, www-authenticate, idempotency-replayed, x-ratelimit-limit-requests, \
     x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
     x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens",
);

pub(super) struct CorsPolicy(Vec<String>);

impl CorsPolicy {
    pub(super) fn new(origins: &[String]) -> Self {
        Self(origins.iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect())
    }

    pub(super) fn add_headers(&self, request: &Parts, headers: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        let Some(origin) = request.headers.get(header::ORIGIN) else { return };
        if !self.0.iter().any(|allowed| allowed == "*" || allowed.as_bytes() == origin.as_bytes()) {
            return;
        }
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        if request.method == Method::OPTIONS {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
            // Clients send custom headers; none of them reaches a provider.
            if let Some(requested) = request.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
            }
        }
    }
}
