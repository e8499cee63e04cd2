//! Request IDs, by which a client's report can be found in the log.

use std::{
    fmt::Write as _,
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries the ID of a request, in the request and in its response.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The lengths of an ID that is adopted from a request, the same as admin's.
const GIVEN_LEN: std::ops::RangeInclusive<usize> = 8..=128;

/// Generates request IDs that are unique in the process, and with high probability among all processes.
pub struct RequestIds {
    /// The prefix of all IDs of this process.
    process: String,
    next: AtomicU64,
}

impl Default for RequestIds {
    /// Creates a generator whose prefix is random, so that two processes hardly ever have the same.
    fn default() -> Self {
        let process = RandomState::new().hash_one(std::process::id());
        Self { process: format!("req_{process:016x}"), next: AtomicU64::new(0) }
    }
}

impl RequestIds {
    /// Returns a new ID: `req_`, the prefix of the process, and a running number in hexadecimal.
    pub fn generate(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(self.process.len() + 2 * size_of_val(&number));
        id.push_str(&self.process);
        let _ = write!(id, "{number:08x}");
        id
    }

    /// Returns the request's own ID if it is harmless in logs and headers; otherwise a new one.
    pub fn id_for(&self, headers: &HeaderMap) -> HeaderValue {
        let is_harmless = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let given = headers
            .get(X_REQUEST_ID)
            .filter(|id| GIVEN_LEN.contains(&id.len()) && id.as_bytes().iter().all(is_harmless));
        given.cloned().unwrap_or_else(|| {
            HeaderValue::try_from(self.generate()).unwrap_or(HeaderValue::from_static("req_unknown"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_ids_are_taken_over() {
        let ids = RequestIds::default();
        let of = |id: &'static str| {
            ids.id_for(&HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_static(id))]))
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(of("0123-abcd_EF.9"), "0123-abcd_EF.9");
        for bad in ["short", "has a space in it", "<script>alert(1)</script>"] {
            assert!(of(bad).starts_with("req_"), "{bad}");
        }
        assert_ne!(of("short"), of("short"));
    }
}
