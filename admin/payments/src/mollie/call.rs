//! One call to Mollie: bounded in time and size, never redirected, with errors that hold no secret.

use std::{error::Error as _, time::Duration};

use anyhow::Context as _;
use http::{HeaderMap, StatusCode, header};
use reqwest::{Client, RequestBuilder, Response, redirect};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use super::MollieProvider;
use crate::PaymentError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a whole call, including the response body.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest response body that is read: a page of 250 payments has some 500 KB.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
const RATE_LIMIT_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
const SENTENCE_CHARS: usize = 300;
const VERSION: &str = "v2";
const MEDIA_TYPE: &str = "application/hal+json";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

#[derive(Deserialize)]
struct MollieErrorBody {
    status: Option<u16>,
    detail: Option<String>,
    title: Option<String>,
    field: Option<String>,
}

/// Creates the HTTP client. It follows no redirects: the API key must go to no other host.
pub(super) fn client() -> anyhow::Result<Client> {
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(CALL_TIMEOUT)
        .redirect(redirect::Policy::none())
        .build()
        .context("the HTTP client for Mollie")
}

impl MollieProvider {
    pub(super) fn get(
        &self,
        call: &'static str,
        segments: &[&str],
        (name, value): (&str, &str),
    ) -> Result<RequestBuilder, PaymentError> {
        let mut url = self.url(call, segments)?;
        url.query_pairs_mut().append_pair(name, value);
        Ok(self.client.get(url).bearer_auth(self.key.expose_secret()).header(header::ACCEPT, MEDIA_TYPE))
    }

    /// Prepares a POST to a path below the API's version. While Mollie remembers an idempotency key, it repeats its
    /// first response.
    pub(super) fn post(
        &self,
        call: &'static str,
        segments: &[&str],
        key: &str,
        body: &Value,
    ) -> Result<RequestBuilder, PaymentError> {
        let url = self.url(call, segments)?;
        let request = self.client.post(url).bearer_auth(self.key.expose_secret());
        Ok(request.header(header::ACCEPT, MEDIA_TYPE).header(IDEMPOTENCY_KEY, key).json(body))
    }

    fn url(&self, call: &'static str, segments: &[&str]) -> Result<Url, PaymentError> {
        let mut url = self.api.clone();
        url.path_segments_mut()
            .map_err(|()| unexpected_response(call, "no use of billing.mollie_url, which cannot carry a path"))?
            .pop_if_empty()
            .push(VERSION)
            .extend(segments);
        Ok(url)
    }
}

/// Removes the version from the API's address, which Mollie's documentation includes and calls add themselves.
pub(super) fn without_version(mut api: Url) -> Url {
    if let Ok(mut segments) = api.path_segments_mut() {
        segments.pop_if_empty();
    }
    if api.path_segments().and_then(|mut segments| segments.next_back()) == Some(VERSION)
        && let Ok(mut segments) = api.path_segments_mut()
    {
        segments.pop();
    }
    api
}

pub(super) async fn send<T: DeserializeOwned>(call: &'static str, request: RequestBuilder) -> Result<T, PaymentError> {
    let response = request.send().await.map_err(|error| connection_error(call, error))?;
    let (status, pause) = (response.status(), retry_after(response.headers()));
    let body = body(call, response).await?;
    if !status.is_success() {
        return Err(failure(call, status, pause, &body));
    }
    // Serde's own message is left out, because it quotes the input.
    serde_json::from_slice(&body)
        .map_err(|error| unexpected_response(call, &format!("not the JSON expected ({:?})", error.classify())))
}

pub(super) fn unexpected_response(call: &'static str, what: &str) -> PaymentError {
    PaymentError::Unavailable { reason: format!("{call}: {what}"), retry_after: None }
}

fn failure(call: &'static str, status: StatusCode, pause: Option<Duration>, body: &[u8]) -> PaymentError {
    let unavailable = |retry_after: Option<Duration>| PaymentError::Unavailable {
        reason: format!("{call}: {status}: {}", error_message(body)),
        retry_after,
    };
    match status {
        StatusCode::TOO_MANY_REQUESTS => unavailable(Some(pause.unwrap_or(RATE_LIMIT_PAUSE))),
        StatusCode::NOT_FOUND | StatusCode::GONE if is_mollie_error(status, body) => PaymentError::Unknown,
        // A page of something else, such as a proxy, tells nothing about payments. A wrong or insufficient API key is
        // for the operator to correct, and not the payer's failure.
        StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            unavailable(None)
        }
        status if status.is_client_error() && !is_temporary(status) => {
            PaymentError::Refused(format!("{call}: {status}: {}", error_message(body)))
        }
        _ => unavailable(pause),
    }
}

/// Returns whether a retry may succeed: the call is still being processed, or arrived too slowly.
fn is_temporary(status: StatusCode) -> bool {
    matches!(status, StatusCode::CONFLICT | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY)
}

/// Returns whether the body of an error repeats its status, as Mollie's do.
fn is_mollie_error(status: StatusCode, body: &[u8]) -> bool {
    serde_json::from_slice::<MollieErrorBody>(body).is_ok_and(|refusal| refusal.status == Some(status.as_u16()))
}

fn error_message(body: &[u8]) -> String {
    let Ok(refusal) = serde_json::from_slice::<MollieErrorBody>(body) else { return "no reason given".to_owned() };
    let words = refusal.detail.or(refusal.title).unwrap_or_else(|| "no reason given".to_owned());
    let field = refusal.field.map(|field| format!(" ({field})")).unwrap_or_default();
    format!("{words}{field}").chars().filter(|c| !c.is_control()).take(SENTENCE_CHARS).collect()
}

async fn body(call: &'static str, mut response: Response) -> Result<Vec<u8>, PaymentError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| connection_error(call, error))? {
        if body.len() + chunk.len() > ANSWER_MAX {
            return Err(unexpected_response(call, "an answer that is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the error of a failed connection. The URL holds only ids, and is left out nevertheless.
fn connection_error(call: &'static str, error: reqwest::Error) -> PaymentError {
    let error = error.without_url();
    let mut reason = format!("{call}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        reason.push_str(": ");
        reason.push_str(&cause.to_string());
        source = cause.source();
    }
    PaymentError::Unavailable { reason, retry_after: None }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] =
        br#"{"status":422,"title":"Unprocessable Entity","detail":"The amount is too high","field":"amount"}"#;

    fn of(status: u16, pause: Option<u64>) -> PaymentError {
        failure("X", StatusCode::from_u16(status).unwrap(), pause.map(Duration::from_secs), BODY)
    }

    #[test]
    fn a_refusal_holds_the_providers_sentence() {
        for status in [400, 405, 415, 422] {
            assert!(
                matches!(of(status, None), PaymentError::Refused(why) if why.contains("The amount is too high (amount)"))
            );
        }
    }

    #[test]
    fn the_version_is_added_once() {
        for (given, expected) in [
            ("https://api.mollie.com", "https://api.mollie.com/"),
            ("https://api.mollie.com/v2", "https://api.mollie.com/"),
            ("https://api.mollie.com/v2/", "https://api.mollie.com/"),
            ("http://localhost:1/mollie/v2", "http://localhost:1/mollie"),
            ("http://localhost:1/mollie", "http://localhost:1/mollie"),
        ] {
            assert_eq!(without_version(given.parse().unwrap()).as_str(), expected, "{given}");
        }
    }

    #[test]
    fn what_may_go_otherwise_next_time_is_no_refusal() {
        for status in [301, 302, 307, 401, 403, 408, 409, 425, 500, 502, 503, 504] {
            assert!(matches!(of(status, None), PaymentError::Unavailable { retry_after: None, .. }), "{status}");
        }
        for status in [404, 410] {
            let code = StatusCode::from_u16(status).unwrap();
            let body = format!("{{\"status\":{status},\"title\":\"Not Found\"}}");
            assert!(matches!(failure("X", code, None, body.as_bytes()), PaymentError::Unknown), "{status}");
            for another in [&b"<html>"[..], b"", b"{}", BODY] {
                assert!(matches!(failure("X", code, None, another), PaymentError::Unavailable { .. }), "{status}");
            }
        }
    }

    #[test]
    fn pauses_are_kept_to_and_bounded() {
        let pause_of = |status, seconds| match of(status, seconds) {
            PaymentError::Unavailable { retry_after, .. } => retry_after,
            error => panic!("{error}"),
        };
        assert_eq!(pause_of(429, Some(7)), Some(Duration::from_secs(7)));
        assert_eq!(pause_of(429, None), Some(RATE_LIMIT_PAUSE));
        assert_eq!(pause_of(503, Some(7)), Some(Duration::from_secs(7)));
        let of = |value: &'static str| {
            retry_after(&HeaderMap::from_iter([(header::RETRY_AFTER, http::HeaderValue::from_static(value))]))
        };
        assert_eq!(of("100000"), Some(LONGEST_PAUSE));
        assert_eq!(of("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    }

    #[test]
    fn odd_bodies_of_errors_are_no_reason() {
        assert_eq!(error_message(b"<html>"), "no reason given");
        assert_eq!(error_message(b"{}"), "no reason given");
        assert_eq!(error_message(b"{\"detail\":\"a\\nb\"}"), "ab");
        assert_eq!(error_message(format!("{{\"detail\":\"{}\"}}", "x".repeat(9_000)).as_bytes()).len(), SENTENCE_CHARS);
    }
}
