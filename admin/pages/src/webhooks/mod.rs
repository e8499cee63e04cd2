//! Webhooks of other servers. For `POST /webhooks/github`, the code host's events, [`receive`] reads and verifies a
//! delivery and [`events`] applies it to the database. `POST /webhooks/payments` reports changed payments
//! ([`payments`]).
//!
//! No handler here waits for the code host or deploys: a push becomes a row, which the job `jobs/pushes` processes.

mod events;
pub mod payments;
mod receive;

use admin_http::{error::ApiError, extract::Json};
use api::webhooks::WebhookTaken;
use app::{App, middleware::client::ClientAddress};
use axum::{Extension, body::Body, extract::State, http::HeaderMap};
use db::code_host::webhook_deliveries;

/// Receives a webhook of the code host.
///
/// A push to a branch that a project is linked to deploys it; each delivery counts once. Configure the webhook at the
/// code host with the content type `application/json` and the secret `code_host.webhook_secret`.
#[utoipa::path(
    post, path = "/webhooks/github", operation_id = "receive_github_webhook", tag = "Code host", security(("webhook" = [])),
    params(
        ("x-hub-signature-256" = String, Header, description = "`sha256=` and the HMAC-SHA-256 of the body, in hex"),
        ("x-github-delivery" = String, Header, description = "The delivery's id"),
        ("x-github-event" = String, Header, description = "The kind of event: `push`, `ping`, `installation`, …"),
    ),
    request_body(content = serde_json::Value, content_type = "application/json", description = "The event"),
    responses(
        (status = 200, description = "The delivery was taken, whether or not its event means anything here", body = WebhookTaken),
    ),
    extensions(("x-errors" = json!({
        "invalid_request": "a header is missing, or the body is not the event's JSON",
        "unauthorized": "the signature is missing or wrong",
        "not_found": "the platform takes no webhooks, because it has no secret to check them with",
        "payload_too_large": "the body is larger than 25 MB",
        "rate_limit_exceeded": "too many deliveries with a wrong signature came from this address",
        "busy": "as many webhooks are being received, of this client or in all, as the server does at a time",
    }))),
)]
pub async fn github(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WebhookTaken>, ApiError> {
    let delivery = receive::receive(&app, client, &headers, body).await?;
    let event = events::parse_event(&delivery.event, &delivery.body)?;
    let mut change = app.change(event.actor()).await?;
    let now = change.now();
    let is_new = webhook_deliveries::record(&mut change, &delivery.id, &delivery.sha256, &delivery.event, now).await?;
    let deploys = if is_new { events::apply(&mut change, &event).await? } else { 0 };
    change.commit().await?;
    tracing::info!(event = delivery.event, delivery = delivery.id, is_new, deploys, "a webhook");
    Ok(Json(WebhookTaken { ok: true, deploys }))
}
