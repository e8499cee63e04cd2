//! The machine-readable description of the API: `/openapi.json` and `/`.
//!
//! [`document`] completes the handlers' attributes with [`operation`], [`headers`] and [`examples`]. `pages::docs` renders
//! it.

pub mod document;
mod examples;
mod headers;
mod operation;

use admin_http::extract::Json;
use app::App;
use axum::{
    Extension,
    extract::State,
    http::{HeaderName, header},
};
use bytes::Bytes;
use serde_json::Value;

/// The OpenAPI document, as JSON.
#[derive(Clone)]
pub struct OpenApiJson(Bytes);

impl OpenApiJson {
    /// Serializes the completed document, once for all requests.
    pub fn new(document: &Value) -> Self {
        Self(document.to_string().into())
    }
}

/// Describes this API as an OpenAPI document.
///
/// Needs no token. The server in it is this installation's API host.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "show_openapi", tag = "Documentation", security(()),
    responses(
        (status = 200, description = "The OpenAPI 3.1 document", content_type = "application/json", body = Object, headers(("Cache-Control"))),
    ),
)]
#[expect(clippy::unused_async, reason = "axum's handlers are async")]
pub async fn openapi(Extension(document): Extension<OpenApiJson>) -> ([(HeaderName, &'static str); 2], Bytes) {
    // The response is the same for everybody, so edges may cache it.
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "public, max-age=60")], document.0)
}

/// Names the service and links to its documentation.
///
/// The links are absolute, so that a client which knows only this address finds the description of the API.
#[utoipa::path(
    get, path = "/", operation_id = "show_service", tag = "Documentation", security(()),
    responses((status = 200, description = "The links", body = Object)),
)]
#[expect(clippy::unused_async, reason = "axum's handlers are async")]
pub async fn root(State(app): State<App>) -> Json<Value> {
    let base = app.config.site.base_url.as_str().trim_end_matches('/');
    Json(serde_json::json!({
        "service": domain::BRAND,
        "docs": format!("{base}/docs"),
        "openapi": format!("{base}/openapi.json"),
        "health": format!("{base}/health"),
    }))
}
