//! `POST /webhooks/github`: what the code host tells us. [`receive`] takes a webhook in and proves that it is genuine;
//! [`events`] is what each kind of event means.
//!
//! Nothing here waits for the code host or deploys: a push becomes a row, which a job works off.

mod events;
mod receive;

use api::{error::ErrorEnvelope, webhooks::WebhookTaken};
use axum::{body::Body, extract::State, http::HeaderMap};
use db::webhook_deliveries;

use crate::{app::App, error::ApiError, extract::Json};

/// Takes a webhook of the code host: a push to a branch that a project is linked to deploys it. Every delivery counts
/// once. Configure it at the code host with content type `application/json` and the secret `code_host.webhook_secret`.
#[utoipa::path(
    post, path = "/webhooks/github", tag = "Code host", security(("webhook" = [])),
    params(
        ("x-hub-signature-256" = String, Header, description = "`sha256=` and the HMAC-SHA-256 of the body, in hex"),
        ("x-github-delivery" = String, Header, description = "The delivery's id"),
        ("x-github-event" = String, Header, description = "The kind of event: `push`, `ping`, `installation`, …"),
    ),
    request_body(content = serde_json::Value, content_type = "application/json", description = "The event"),
    responses(
        (status = 200, description = "Taken; an event that means nothing to us too", body = WebhookTaken),
        (status = 400, description = "`invalid_request`: a header is missing, or the body is not the event's JSON", body = ErrorEnvelope),
        (status = 401, description = "`unauthorized`: the signature is missing or wrong", body = ErrorEnvelope),
        (status = 404, description = "`not_found`: this platform takes no webhooks, because it has no secret to check them with", body = ErrorEnvelope),
        (status = 413, description = "`payload_too_large`: more than 25 MB", body = ErrorEnvelope),
        (status = 503, description = "`busy`: too many webhooks at once; wait as long as Retry-After says", body = ErrorEnvelope),
    ),
)]
pub async fn github(State(app): State<App>, headers: HeaderMap, body: Body) -> Result<Json<WebhookTaken>, ApiError> {
    let delivery = receive::receive(&app, &headers, body).await?;
    let event = events::read(&delivery.event, &delivery.body)?;
    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    let is_new = webhook_deliveries::note(&mut tx, &delivery.id, &delivery.sha256, &delivery.event, now).await?;
    let deploys = if is_new { events::apply(&mut tx, &event, now).await? } else { 0 };
    tx.commit().await?;
    tracing::info!(event = delivery.event, delivery = delivery.id, is_new, deploys, "a webhook");
    Ok(Json(WebhookTaken { ok: true, deploys }))
}
