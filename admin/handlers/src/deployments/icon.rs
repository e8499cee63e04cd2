//! `/projects/:name/deployments/:id/icon`: a deployment's favicon.

use std::ops::RangeInclusive;

use admin_http::{error::ApiError, extract::Path};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use db::permits::Member;
use domain::limits::ICON_BYTES;
use packs::{Span, StoreError};

use super::{
    DeploymentPath,
    files::{read_error, require_files},
};

/// File names that browsers and phones request by default, the best-looking first.
const ICONS: &[&str] = &["favicon.svg", "apple-touch-icon.png", "favicon.png", "favicon.ico"];
const BYTES: RangeInclusive<u64> = 1..=ICON_BYTES as u64;
/// `Cache-Control` of the icon: deployments are immutable.
const FOREVER: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
/// `Content-Security-Policy` of the icon, which forbids everything if it is opened as a document, as an SVG can be.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

/// Serves the icon of a deployment.
///
/// It is the first of `favicon.svg`, `apple-touch-icon.png`, `favicon.png` and `favicon.ico` that exists at the
/// deployment's root and has at most 512 KB. Icons that pages reference elsewhere are not considered.
#[utoipa::path(
    get, path = "/projects/{name}/deployments/{id}/icon", operation_id = "show_deployment_icon", tag = "Deployments",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("id" = String, Path, description = "The deployment's id"),
    ),
    responses(
        (status = 200, description = "The icon", headers(
            ("Cache-Control"), ("Content-Security-Policy"), ("X-Content-Type-Options"),
        ), content((Vec<u8> = "image/svg+xml"), (Vec<u8> = "image/png"), (Vec<u8> = "image/x-icon"))),
        (status = 204, description = "It has none", headers(("Cache-Control"))),
    ),
    extensions(("x-errors" = json!({
        "no_files": "the deployment is being uploaded, or its upload failed",
        "files_unavailable": "the store does not answer, or has lost or damaged the deployment's files",
        "busy": "too many deployments are being looked into, or too many requests are under way",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(DeploymentPath { id }): Path<DeploymentPath>,
) -> Result<Response, ApiError> {
    require_files(&app, &project, &id).await?;
    let turn = app.bounds.listing(&caller.paying_account()).await?;
    let (store, read_id) = (app.store.clone(), id.clone());
    // A separate task: reading a manifest holds memory, and so the permit, even after the client disconnects.
    let reading = app.in_background(async move {
        let _turn = turn;
        let icon = async {
            let found = store.entries(&read_id, ICONS).await?;
            let small = |path: &&'static str| {
                let (_, body) = found.get(*path)?.bodies().next()?;
                BYTES.contains(&body.span.len).then_some((*path, body))
            };
            let Some((path, body)) = ICONS.iter().find_map(small) else { return Ok(None) };
            let Span { offset, len } = body.span;
            let image = store.read(&read_id, offset, len).await?;
            if body.is_body(&image) {
                Ok(Some((content_type(path), image)))
            } else {
                Err(StoreError::Damaged(format!("{path} is not what was stored")))
            }
        };
        Ok(icon.await)
    });
    let icon = match reading.await? {
        Ok(icon) => icon,
        Err(error) => return Err(read_error(&app, &project, &id, error).await),
    };
    let Some((content_type, image)) = icon else {
        return Ok((StatusCode::NO_CONTENT, [(header::CACHE_CONTROL, FOREVER)]).into_response());
    };
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, FOREVER),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    Ok((headers, image).into_response())
}

fn content_type(path: &str) -> HeaderValue {
    HeaderValue::from_static(match path.rsplit_once('.') {
        Some((_, "svg")) => "image/svg+xml",
        Some((_, "png")) => "image/png",
        _ => "image/x-icon",
    })
}
