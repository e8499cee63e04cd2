//! `GET /health`.

use std::time::Duration;

use api::account::Health;
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use crate::{app::App, extract::Json};

/// Longest time for a part to answer before it counts as away.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells whether the platform works: whether Postgres and Redis answer.
#[utoipa::path(
    get, path = "/health", tag = "Health and identity", security(()),
    responses(
        (status = 200, description = "Both answer", body = Health),
        (status = 503, description = "Postgres or Redis does not answer", body = Health),
    ),
)]
pub async fn health(State(app): State<App>) -> Response {
    let postgres = tokio::time::timeout(PATIENCE, db::ping(&app.db));
    let redis = tokio::time::timeout(PATIENCE, app.redis.ping());
    let (postgres, redis) = tokio::join!(postgres, redis);
    let (postgres, redis) = (matches!(postgres, Ok(Ok(()))), matches!(redis, Ok(Ok(()))));
    if postgres && redis {
        Json(Health { ok: true, postgres: None, redis: None }).into_response()
    } else {
        let health = Health { ok: false, postgres: Some(postgres), redis: Some(redis) };
        (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
    }
}
