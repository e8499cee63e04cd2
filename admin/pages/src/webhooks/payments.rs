//! `POST /webhooks/payments`: a payment changed at its provider. Only the payment's id is taken from the webhook; the
//! payment's state is fetched from the provider.
//!
//! The classic webhook is an unsigned form with the id, so anybody can send one. The newer webhook is a JSON event,
//! signed with `billing.mollie_webhook_secret`.

use std::time::Duration;

use admin_http::{
    error::{ApiError, Code},
    extract::{Json, read_body_up_to},
};
use api::{Done, webhooks::PaymentHint};
use app::{
    App,
    bounds::{CheckTurn, NextCheck},
    middleware::client::ClientAddress,
    rates::{self, Bucket},
};
use axum::{Extension, body::Body, extract::State, http::HeaderMap};
use db::billing::payments;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderName, header::CONTENT_TYPE};
use serde::Deserialize;
use sha2::Sha256;
use tokio::sync::oneshot;
use tracing::Instrument as _;

/// The maximum body size. An event that includes the whole payment has some 5 KB.
const BODY_BYTES: usize = 64 * 1024;
/// The maximum length of an id. Current ids have 10 to 30 characters.
const ID_CHARS: usize = 64;
/// Maximum wait of the response for the check, which continues afterwards. The provider gives up after 15 s.
const LOOK_WAIT: Duration = Duration::from_secs(5);
/// Timeout of a check, beyond all its waits for the provider.
const LOOK_LONGEST: Duration = Duration::from_mins(2);
/// Delay before a failed check is repeated.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// The prefix of payment ids, which tells them from ids of refunds and other things that events are about.
const PAYMENT_PREFIX: &str = "tr_";

const SIGNATURE: HeaderName = HeaderName::from_static("x-mollie-signature");

/// An event: an id, and perhaps a snapshot of the entity. A snapshot may also be sent alone.
#[derive(Default, Deserialize)]
struct PaymentEvent {
    #[serde(rename = "entityId")]
    entity_id: Option<String>,
    #[serde(default, rename = "_embedded")]
    embedded: EventEmbedded,
    #[serde(flatten)]
    snapshot: EntitySnapshot,
}

#[derive(Default, Deserialize)]
struct EventEmbedded {
    #[serde(default)]
    entity: EntitySnapshot,
}

#[derive(Default, Deserialize)]
struct EntitySnapshot {
    id: Option<String>,
    /// For a refund or a chargeback, the payment that it reduces.
    #[serde(rename = "paymentId")]
    payment_id: Option<String>,
}

/// Receives a webhook of the payment provider.
///
/// The payment is fetched from the provider and settled accordingly; an unknown id gets the same response as a known
/// one. The webhook's address is sent with each payment, so nothing has to be configured at the provider. Events of the
/// provider's newer kind are accepted if `billing.mollie_webhook_secret` is set.
#[utoipa::path(
    post, path = "/webhooks/payments", operation_id = "receive_payment_webhook", tag = "Billing", security(("payment_event" = []), ()),
    request_body(content(
        (PaymentHint = "application/x-www-form-urlencoded"),
        (serde_json::Value = "application/json"),
    ), description = "A payment's id, or a signed event"),
    params(
        ("x-mollie-signature" = Option<String>, Header, description = "The HMAC-SHA-256 of an event, in hex"),
    ),
    responses((status = 200, description = "The webhook was taken, whether or not the payment is known here", body = Done)),
    extensions(("x-errors" = json!({
        "invalid_request": "the body holds no id",
        "unauthorized": "the signature is wrong, or signed webhooks are not taken here",
        "not_found": "plans cannot be paid on this platform",
        "rate_limit_exceeded": "too many webhooks about unknown payments, or about one payment, came from this address",
        "busy": "as many payments are being looked at as the server does at a time",
    }))),
)]
pub async fn receive(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Done>, ApiError> {
    let Some(provider) = &app.payments else {
        return Err(ApiError::new(Code::NotFound, "This platform takes no payments: billing.provider is none."));
    };
    // Count first, and undo once the webhook starts a check of one of our payments, so that concurrent made-up webhooks
    // cannot all slip through, and knowing one payment does not bypass the limit.
    let counted = rates::client(client);
    app.rate_limits.count_client(Bucket::PaymentWebhook, &counted).await.check()?;
    let turn = app.bounds.webhook(client.into())?;
    let body = read_body_up_to(body, BODY_BYTES).await?;
    let secret = app.config.billing.mollie_webhook_secret.as_deref().unwrap_or_default();
    let Some(id) = payment_id(secret, &headers, &body)? else { return Ok(Json(Done::OK)) };
    // Webhooks that wait for a check are bounded by the rate limit or by the checks' own limits.
    drop(turn);
    let looks = app.bounds.payment_looks();
    if let Some(next) = looks.join(&id) {
        return Ok(wait_for_check(next).await);
    }
    let kind = provider.kind().as_str();
    let is_known = payments::find_at_provider(&app.db, kind, &id).await?.is_some();
    if is_known {
        app.rate_limits.count_client(Bucket::PaymentLook, &counted).await.check()?;
    }
    let mut look = match looks.begin(&id, client.into())? {
        CheckTurn::First(look) => look,
        CheckTurn::Joined(next) => return Ok(wait_for_check(next).await),
    };
    let looking = app.clone();
    let (answer, first) = oneshot::channel();
    // From here on the check continues without the client: others may have joined it.
    let looks = async move {
        let answered = match look.acquire().await {
            Ok(_permit) => {
                check_now(&looking, kind, &id).await;
                Ok(())
            }
            Err(error) => {
                // Whether or not the provider sends the webhook again, a job checks the payment.
                schedule_check(&looking, kind, &id).await;
                Err(error)
            }
        };
        // An error means that the client has disconnected.
        let _ = answer.send(answered);
        while let Some(true) = looking.stopping.run_until_cancelled(look.finish_and_wait()).await {
            match look.acquire().await {
                Ok(_permit) => check_now(&looking, kind, look.id()).await,
                Err(_) => schedule_check(&looking, kind, look.id()).await,
            }
        }
        if look.has_waiters() {
            schedule_check(&looking, kind, look.id()).await;
        }
    };
    app.tasks.spawn(looks.in_current_span());
    if is_known {
        app.rate_limits.uncount_client(Bucket::PaymentWebhook, &counted).await;
    }
    match tokio::time::timeout(LOOK_WAIT, first).await {
        Ok(Ok(Err(error))) => Err(error),
        // The timeout elapsed; the program's shutdown waits for the check.
        _ => Ok(Json(Done::OK)),
    }
}

/// Responds once the next check of the payment has finished, or after a timeout.
async fn wait_for_check(next: NextCheck) -> Json<Done> {
    let _ = tokio::time::timeout(LOOK_WAIT, next.wait()).await;
    Json(Done::OK)
}

/// Checks a payment. If that fails, a job checks again soon.
async fn check_now(app: &App, kind: &str, id: &str) {
    let looked = tokio::time::timeout(LOOK_LONGEST, billing::poll_by_provider_id(app, id)).await;
    if let Err(error) = looked.unwrap_or_else(|_| Err(anyhow::anyhow!("it took too long"))) {
        tracing::warn!(id, "a payment could not be looked at: {error:#}");
        // The provider was already sent a success response.
        schedule_check(app, kind, id).await;
    }
}

/// Schedules a job to check a payment soon.
async fn schedule_check(app: &App, kind: &str, id: &str) {
    let soon = app.clock.now() + LOOK_AGAIN;
    if let Err(error) = db::in_time(payments::schedule_check(&app.db, kind, id, soon)).await {
        tracing::warn!(id, %error, "its next look could not be brought forward");
    }
}

/// Returns the id of the payment that a webhook is about; `None` if it is about something else.
fn payment_id(secret: &str, headers: &HeaderMap, body: &[u8]) -> Result<Option<String>, ApiError> {
    if !headers.contains_key(SIGNATURE) {
        let is_json = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        if is_json {
            return Err(unsigned("An event in JSON must be signed."));
        }
        let hint: PaymentHint = serde_urlencoded::from_bytes(body)
            .map_err(|_| ApiError::invalid("The body must be a form with the payment's `id`."))?;
        return if is_payment_id(&hint.id) {
            Ok(Some(hint.id))
        } else {
            Err(ApiError::invalid("`id` is not a payment's id."))
        };
    }
    // Anybody can compute an HMAC with an empty key.
    if secret.is_empty() {
        return Err(unsigned("Signed webhooks are not taken here: billing.mollie_webhook_secret is not set."));
    }
    if !is_genuine(secret.as_bytes(), headers, body) {
        return Err(unsigned("X-Mollie-Signature is wrong; the secret must be billing.mollie_webhook_secret."));
    }
    let event: PaymentEvent =
        serde_json::from_slice(body).map_err(|_| ApiError::invalid("The body is not an event in JSON."))?;
    let PaymentEvent { entity_id, embedded: EventEmbedded { entity }, snapshot } = event;
    let ids = [entity_id, entity.id, entity.payment_id, snapshot.id, snapshot.payment_id];
    Ok(ids.into_iter().flatten().find(|id| id.starts_with(PAYMENT_PREFIX) && is_payment_id(id)))
}

fn unsigned(sentence: &'static str) -> ApiError {
    ApiError::new(Code::Unauthorized, sentence)
}

/// Returns whether the text can be a payment's id.
fn is_payment_id(text: &str) -> bool {
    (1..=ID_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Compares the body's HMAC with the signature, which must be present exactly once, in constant time.
fn is_genuine(secret: &[u8], headers: &HeaderMap, body: &[u8]) -> bool {
    let mut values = headers.get_all(SIGNATURE).into_iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Ok(text) = value.to_str() else { return false };
    let mut signature = [0; 32];
    if hex::decode_to_slice(text.strip_prefix("sha256=").unwrap_or(text), &mut signature).is_err() {
        return false;
    }
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
    mac.update(body);
    mac.verify_slice(&signature).is_ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const SECRET: &str = "secret-of-the-webhooks";

    fn signed(body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(body.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    fn with(signature: &str) -> HeaderMap {
        HeaderMap::from_iter([(SIGNATURE, HeaderValue::from_str(signature).unwrap())])
    }

    fn event(body: &str) -> Option<String> {
        payment_id(SECRET, &with(&signed(body)), body.as_bytes()).unwrap()
    }

    #[test]
    fn a_form_names_its_payment() {
        let of = |body: &str| payment_id("", &HeaderMap::new(), body.as_bytes()).ok().flatten();
        assert_eq!(of("id=tr_WDqYK6vllg").as_deref(), Some("tr_WDqYK6vllg"));
        assert_eq!(of("testByMollie=1&id=tr_7").as_deref(), Some("tr_7"));
        let long = format!("id=tr_{}", "a".repeat(ID_CHARS));
        for body in ["", "id=", "di=tr_1", "id=tr_1&id=tr_2", "id=..%2Ftr_1", "id=tr%201", "{\"id\":\"tr_1\"}", &long] {
            assert_eq!(of(body), None, "{body}");
        }
    }

    #[test]
    fn only_what_is_signed_is_read_as_an_event() {
        let body = r#"{"resource":"event","type":"payment.paid","entityId":"tr_1"}"#;
        let genuine = signed(body);
        assert_eq!(event(body).as_deref(), Some("tr_1"));
        let prefixed = payment_id(SECRET, &with(&format!("sha256={genuine}")), body.as_bytes());
        assert_eq!(prefixed.unwrap().as_deref(), Some("tr_1"));
        let shorter = genuine[..62].to_owned();
        for signature in ["", "sha256=", &shorter, &"0".repeat(64), &format!("sha1={genuine}"), &format!("{genuine}00")]
        {
            assert!(payment_id(SECRET, &with(signature), body.as_bytes()).is_err(), "{signature}");
        }
        let mut twice = with(&genuine);
        twice.append(SIGNATURE, HeaderValue::from_str(&genuine).unwrap());
        assert!(payment_id(SECRET, &twice, body.as_bytes()).is_err());
        assert!(payment_id(SECRET, &with(&genuine), b"{}").is_err(), "of another body");
        assert!(payment_id("", &with(&signed_by_nothing(body)), body.as_bytes()).is_err());
        assert!(payment_id(SECRET, &with(&signed("[")), b"[").is_err());
    }

    fn signed_by_nothing(body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"").unwrap();
        mac.update(body.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    #[test]
    fn an_event_names_its_payment_wherever_it_stands() {
        for body in [
            r#"{"entityId":"tr_1"}"#,
            r#"{"entityId":"re_1","_embedded":{"entity":{"resource":"refund","id":"re_1","paymentId":"tr_1"}}}"#,
            r#"{"resource":"payment","id":"tr_1","status":"paid"}"#,
            r#"{"resource":"refund","id":"re_1","paymentId":"tr_1"}"#,
        ] {
            assert_eq!(event(body).as_deref(), Some("tr_1"), "{body}");
        }
        for body in ["{}", r#"{"entityId":"re_1"}"#, r#"{"id":"event_1","entityId":"pl_1"}"#] {
            assert_eq!(event(body), None, "{body}");
        }
    }
}
