//! Receives a webhook, bounded in size and time, and verifies its signature before parsing any of it.

use std::{net::IpAddr, time::Duration};

use admin_http::{
    error::{ApiError, Code},
    extract::late_body,
};
use app::{
    App,
    bounds::WebhookPermit,
    rates::{self, Bucket},
};
use axum::{body::Body, http::HeaderMap};
use domain::{limits::WEBHOOK_BYTES, size};
use futures_util::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderName;
use sha2::{Digest as _, Sha256};

/// Timeout of reading a body. The code host gives up after 10 s.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of a delivery's id and of an event's name. GitHub's have 36 and some 30 characters.
const NAME_CHARS: usize = 100;

const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");
const DELIVERY: HeaderName = HeaderName::from_static("x-github-delivery");
const EVENT: HeaderName = HeaderName::from_static("x-github-event");

/// A webhook whose signature was verified.
pub(super) struct VerifiedDelivery {
    pub(super) id: String,
    pub(super) event: String,
    pub(super) body: Vec<u8>,
    pub(super) sha256: [u8; 32],
}

/// Receives a webhook from `client` and verifies it.
pub(super) async fn receive(
    app: &App,
    client: IpAddr,
    headers: &HeaderMap,
    body: Body,
) -> Result<VerifiedDelivery, ApiError> {
    let secret = app.config.code_host.webhook_secret.as_bytes();
    if secret.is_empty() {
        // Anybody can compute an HMAC with an empty key.
        return Err(ApiError::new(
            Code::NotFound,
            "This platform takes no webhooks: code_host.webhook_secret is not set.",
        ));
    }
    // Count first, and undo if the webhook is genuine, so that concurrent made-up ones cannot all slip through. All
    // limits, including the permit, are per client: no client can keep out the code host's deliveries.
    let counted = rates::client(client);
    app.rate_limits.count_client(Bucket::Webhook, &counted).await.check()?;
    // Checked before the body, so that nothing is read from a client without a signature.
    let signature = parse_signature(headers).ok_or_else(unsigned)?;
    let mut turn = app.bounds.webhook(client.into())?;
    let body = tokio::time::timeout(BODY_TIMEOUT, read(&mut turn, body)).await.map_err(|_| late_body())??;
    if !is_genuine(secret, &body, &signature) {
        return Err(unsigned());
    }
    app.rate_limits.uncount_client(Bucket::Webhook, &counted).await;
    let (id, event) = (name(headers, &DELIVERY)?, name(headers, &EVENT)?);
    let sha256 = Sha256::digest(&body).into();
    Ok(VerifiedDelivery { id, event, body, sha256 })
}

async fn read(turn: &mut WebhookPermit, body: Body) -> Result<Vec<u8>, ApiError> {
    let mut chunks = body.into_data_stream();
    let mut read = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| ApiError::invalid("The body ended before it was complete."))?;
        if (read.len() + chunk.len()) as u64 > WEBHOOK_BYTES {
            let message = format!("The body is larger than {}.", size(WEBHOOK_BYTES));
            return Err(ApiError::new(Code::PayloadTooLarge, message));
        }
        turn.grow(read.len(), chunk.len()).await?;
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// Parses the 32 bytes of `sha256=…`, if the header is present exactly once.
fn parse_signature(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut values = headers.get_all(SIGNATURE).into_iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let mut signature = [0; 32];
    hex::decode_to_slice(value.to_str().ok()?.strip_prefix("sha256=")?, &mut signature).ok()?;
    Some(signature)
}

/// Compares the body's HMAC with the signature in constant time.
fn is_genuine(secret: &[u8], body: &[u8], signature: &[u8; 32]) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
    mac.update(body);
    mac.verify_slice(signature).is_ok()
}

fn name(headers: &HeaderMap, header: &HeaderName) -> Result<String, ApiError> {
    let text = headers.get(header).and_then(|value| value.to_str().ok());
    let good = text.filter(|text| (1..=NAME_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()));
    good.map(str::to_owned).ok_or_else(|| ApiError::invalid(format!("The header {header} is missing or malformed.")))
}

fn unsigned() -> ApiError {
    ApiError::new(
        Code::Unauthorized,
        "X-Hub-Signature-256 is missing or wrong; the webhook's secret must be code_host.webhook_secret.",
    )
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// The example from GitHub's documentation.
    #[test]
    fn the_documented_example_is_genuine() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let headers = HeaderMap::from_iter([(SIGNATURE, HeaderValue::from_static(signature))]);
        let signature = super::parse_signature(&headers).unwrap();
        assert!(is_genuine(b"It's a Secret to Everybody", b"Hello, World!", &signature));
        assert!(!is_genuine(b"It's a Secret to Everybody", b"Hello, World?", &signature));
        assert!(!is_genuine(b"It's a secret to everybody", b"Hello, World!", &signature));
    }

    #[test]
    fn only_whole_signatures_are_read() {
        let whole = format!("sha256={}", "0".repeat(64));
        let read =
            |text: &str| parse_signature(&HeaderMap::from_iter([(SIGNATURE, HeaderValue::from_str(text).unwrap())]));
        assert!(read(&whole).is_some());
        for bad in ["", "sha256=", "sha256=00", &whole[7..], &format!("sha1={}", &whole[7..]), &format!("{whole}00")] {
            assert!(read(bad).is_none(), "{bad}");
        }
        let mut twice = HeaderMap::from_iter([(SIGNATURE, HeaderValue::from_str(&whole).unwrap())]);
        twice.append(SIGNATURE, HeaderValue::from_static("sha256=00"));
        assert!(parse_signature(&twice).is_none());
    }
}
