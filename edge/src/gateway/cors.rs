//! Whether a page in a browser may call the gateway: only from the origins that the operator names, by default none.

use http::{HeaderMap, HeaderValue, Method, header, request::Parts};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST");
const HOUR: HeaderValue = HeaderValue::from_static("3600");
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, \
     x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens",
);

/// The origins that are named.
pub(super) struct Cors(Vec<String>);

impl Cors {
    pub(super) fn new(origins: &[String]) -> Self {
        Self(origins.iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect())
    }

    /// Marks the answer to a request from a page that may see it.
    pub(super) fn mark(&self, request: &Parts, answer: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        answer.append(header::VARY, HeaderValue::from_static("origin"));
        let Some(origin) = request.headers.get(header::ORIGIN) else { return };
        if !self.0.iter().any(|named| named == "*" || named.as_bytes() == origin.as_bytes()) {
            return;
        }
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        if request.method == Method::OPTIONS {
            answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            answer.insert(header::ACCESS_CONTROL_MAX_AGE, HOUR);
            // Clients send fields of their own beside the key; none of them goes further than here.
            if let Some(wanted) = request.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
            }
        }
    }
}
