//! What the API says of itself: `/openapi.json`, `/docs` and `/`.
//!
//! [`document`] completes what the handlers' attributes say, with [`operation`] and [`headers`]; [`render`] makes the
//! readable page of it.

pub mod document;
mod headers;
mod operation;
mod render;

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderName, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::Value;

use crate::{app::App, extract::Json, pages::page};

/// The API's description, made once at the start.
pub struct Docs {
    json: Bytes,
    page: String,
}

impl Docs {
    /// From the completed document.
    pub fn new(document: &Value) -> Self {
        Self { json: document.to_string().into(), page: render::body(document) }
    }
}

/// Describes this API as an OpenAPI document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "Documentation", security(()),
    responses(
        (status = 200, description = "The OpenAPI 3.1 document", content_type = "application/json", body = Object),
    ),
)]
pub async fn openapi(Extension(docs): Extension<Arc<Docs>>) -> ([(HeaderName, &'static str); 1], Bytes) {
    ([(header::CONTENT_TYPE, "application/json")], docs.json.clone())
}

/// Describes this API as a page to read.
#[utoipa::path(
    get, path = "/docs", tag = "Documentation", security(()),
    responses((status = 200, description = "The page", content_type = "text/html", body = String)),
)]
pub async fn docs(Extension(docs): Extension<Arc<Docs>>) -> Response {
    page(StatusCode::OK, "The svc API", &docs.page)
}

/// Names the service and links to its documentation.
#[utoipa::path(
    get, path = "/", tag = "Documentation", security(()),
    responses((status = 200, description = "The links", body = Object)),
)]
pub async fn root(State(app): State<App>) -> Json<Value> {
    let base = app.config.site.base_url.as_str().trim_end_matches('/');
    Json(serde_json::json!({
        "service": domain::BRAND,
        "docs": format!("{base}/docs"),
        "openapi": format!("{base}/openapi.json"),
        "health": format!("{base}/health"),
    }))
}
