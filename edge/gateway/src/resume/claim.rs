//! The name of an answer, derived from its key, and the claim that records which edge has it for which request.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::Account;
use gateway_request::error::ApiError;
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The idempotency headers of a request.
pub(crate) struct IdempotencyHeaders {
    key: HeaderValue,
    pub(super) last_event: Option<String>,
}

impl IdempotencyHeaders {
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let last_event = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty());
        let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
            // Starting over would be charged.
            return match last_event {
                Some(_) => Err(ApiError::invalid_value("Last-Event-ID", "it needs the Idempotency-Key of the answer")),
                None => Ok(None),
            };
        };
        let is_visible = key.as_bytes().iter().all(u8::is_ascii_graphic);
        if !limits::IDEMPOTENCY_KEY_CHARS.contains(&key.len()) || !is_visible {
            return Err(ApiError::invalid_value("Idempotency-Key", "expected 1 to 255 visible characters of ASCII"));
        }
        let last_event = last_event.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        Ok(Some(Self { key: key.clone(), last_event }))
    }

    pub(super) fn answer_name(&self, account: &Account) -> String {
        encoded(&[account.as_str().as_bytes(), b"\n", self.key.as_bytes()])
    }
}

pub(super) fn fingerprint(path: &str, body: &[u8]) -> String {
    encoded(&[path.as_bytes(), b"\n", body])
}

fn encoded(parts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    URL_SAFE_NO_PAD.encode(digest.finalize())
}

/// An entry in Redis that records which edge has an answer, and to which request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerClaim {
    pub(super) edge: String,
    /// Distinguishes the exchange from others with the same key.
    pub(super) tag: String,
    pub(super) request: String,
}

impl AnswerClaim {
    pub(super) fn to_text(&self) -> String {
        let Self { edge, tag, request } = self;
        format!("{edge} {tag} {request}")
    }

    /// Parses a claim. Later versions may append to it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ').map(str::to_owned);
        Some(Self { edge: words.next()?, tag: words.next()?, request: words.next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_visible_and_an_event_needs_one() {
        let of = |fields: &[(HeaderName, &'static str)]| {
            let headers = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            IdempotencyHeaders::from_headers(&headers.collect())
                .map(|once| once.map(|once| once.last_event))
                .map_err(|error| error.status())
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(IDEMPOTENCY_KEY, "a-b_c.1~")]), Ok(Some(None)));
        assert_eq!(of(&[(IDEMPOTENCY_KEY, "k"), (LAST_EVENT_ID, "")]), Ok(Some(None)));
        assert_eq!(of(&[(IDEMPOTENCY_KEY, "k"), (LAST_EVENT_ID, "t-7")]), Ok(Some(Some("t-7".to_owned()))));
        for refused in [&[(IDEMPOTENCY_KEY, "")][..], &[(IDEMPOTENCY_KEY, "a b")], &[(LAST_EVENT_ID, "t-7")]] {
            assert_eq!(of(refused), Err(http::StatusCode::BAD_REQUEST), "{refused:?}");
        }
    }

    #[test]
    fn a_claim_comes_back_as_it_was_written() {
        let claim =
            AnswerClaim { edge: "00ff".to_owned(), tag: "1234abcd".to_owned(), request: fingerprint("/v1/x", b"{}") };
        assert_eq!(AnswerClaim::parse(&claim.to_text()), Some(claim.clone()));
        assert_eq!(AnswerClaim::parse(&format!("{} more", claim.to_text())), Some(claim));
        assert_eq!(AnswerClaim::parse("only two"), None);
        assert_ne!(fingerprint("/v1/x", b"{}"), fingerprint("/v1/y", b"{}"));
    }
}
