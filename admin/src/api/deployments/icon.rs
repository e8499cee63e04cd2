//! `/projects/:name/deployments/:id/icon`: what browsers show beside the name of a deployment's pages.

use std::ops::RangeInclusive;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use db::permits::Member;
use domain::limits::ICON_BYTES;
use packs::Span;

use super::{Named, files::require_files};
use crate::{app::App, auth::ProjectAccess, error::ApiError, extract::Path};

/// Names that browsers and phones ask for by themselves, the one that is drawn best first.
const ICONS: &[&str] = &["favicon.svg", "apple-touch-icon.png", "favicon.png", "favicon.ico"];
/// Bytes of what is shown.
const BYTES: RangeInclusive<u64> = 1..=ICON_BYTES as u64;
/// A deployment never changes.
const FOREVER: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
/// The policy of the image when it is opened as a document, which an SVG is: nothing is allowed.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");

/// Serves the icon of a deployment.
///
/// It is the first of `favicon.svg`, `apple-touch-icon.png`, `favicon.png` and `favicon.ico` that lies at its root and has at most
/// 512 KB. Icons that pages name elsewhere are not looked for.
#[utoipa::path(
    get, path = "/projects/{name}/deployments/{id}/icon", tag = "Deployments",
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
        "busy": "too many deployments are being looked into, or too many requests are under way",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(Named { id }): Path<Named>,
) -> Result<Response, ApiError> {
    require_files(&app, &project, &id).await?;
    let turn = app.bounds.listing(&project.owner).await?;
    let store = app.store.clone();
    // A manifest that is being read takes its memory also when nobody waits for it any more.
    let reading = app.in_background(async move {
        let _turn = turn;
        let found = store.entries(&id, ICONS).await?;
        let small = |path: &&'static str| {
            let span = found.get(*path).map(|entry| entry.identity).filter(|span| BYTES.contains(&span.len));
            span.map(|span| (*path, span))
        };
        let Some((path, Span { offset, len })) = ICONS.iter().find_map(small) else { return Ok(None) };
        Ok(Some((content_type(path), store.read(&id, offset, len).await?)))
    });
    let Some((content_type, image)) = reading.await? else {
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
