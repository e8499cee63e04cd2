//! `GET /health`.

use std::time::Instant;

use admin_http::extract::Json;
use api::account::Health;
use app::App;
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

/// Shows whether the platform works, that is, whether Postgres and Redis answer.
///
/// For load balancers and monitoring. Needs no token; the response says which of the two does not answer.
#[utoipa::path(
    get, path = "/health", operation_id = "check_health", tag = "Health and identity", security(()),
    responses(
        (status = 200, description = "Both answer", body = Health),
        (status = 503, description = "Postgres or Redis does not answer, or the server is about to stop", body = Health),
    ),
)]
#[expect(clippy::unused_async, reason = "axum's handlers are async")]
pub async fn health(State(app): State<App>) -> Response {
    let reading = app.vitals.reading(Instant::now());
    // An edge that sees this sends its requests to another admin, while this one finishes its own.
    let draining = app.stopping.is_cancelled().then_some(true);
    if reading.is_well() && draining.is_none() {
        return Json(Health { ok: true, postgres: None, redis: None, draining: None }).into_response();
    }
    let health = Health { ok: false, postgres: Some(reading.postgres), redis: Some(reading.redis), draining };
    (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
}
