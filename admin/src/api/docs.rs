//! `/openapi.json` and what is read by people.

use std::sync::Arc;

use axum::{Extension, Json, response::IntoResponse};
use utoipa::openapi::OpenApi;

/// This description of the API.
#[utoipa::path(
    get, path = "/openapi.json", tag = "Documentation", security(()),
    responses((status = 200, description = "The OpenAPI 3.1 document", content_type = "application/json")),
)]
pub async fn openapi(Extension(document): Extension<Arc<OpenApi>>) -> impl IntoResponse {
    Json(document)
}
