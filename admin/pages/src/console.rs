//! The console: a single-page app, served at every address that it has pages for. It uses the API under `/api`.

use app::{
    App,
    auth::cookies::{self, SESSION},
};
use axum::{
    extract::{Path, State},
    http::{HeaderMap, Uri, header},
    response::{IntoResponse as _, Redirect, Response},
};

use super::home;

/// The first path segments of the console's addresses.
pub(super) const PAGES: [&str; 9] =
    ["/new", "/sites", "/shares", "/orgs", "/ai", "/billing", "/account", "/docs", "/dev"];
pub(super) const FILES: &str = "/_app/{*path}";

pub(super) const GUIDE: &str = "/docs/guide";
/// The icon that browsers request by default.
pub(super) const FAVICON: &str = "/favicon.ico";
const ICON: &str = include_str!("../templates/favicon.svg");

/// Serves the front page: the console for a browser that may be signed in, a description of svc for every other.
/// Without a built console, a page without scripts.
pub(super) async fn front(state: State<App>, headers: HeaderMap) -> Response {
    match &state.console_files {
        Some(files) if cookies::secret(&headers, SESSION).is_some() => files.page(&headers),
        Some(_) | None => home::show(state, headers).await.into_response(),
    }
}

/// Serves the console's page, which itself checks who is signed in.
pub(super) async fn page(State(app): State<App>, headers: HeaderMap) -> Response {
    match &app.console_files {
        Some(files) => files.page(&headers),
        None => super::not_found().await,
    }
}

pub(super) async fn file(State(app): State<App>, headers: HeaderMap, uri: Uri) -> Response {
    match &app.console_files {
        Some(files) => files.file(uri.path(), &headers),
        None => super::not_found().await,
    }
}

/// Redirects to the front page of the documentation, whose relative links need a trailing slash.
pub(super) async fn guide_front() -> Redirect {
    Redirect::permanent(&format!("{GUIDE}/"))
}

/// Serves the console's icon for pages that name none. Browsers go by its type, not by its name.
pub(super) async fn favicon() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CACHE_CONTROL, "public, max-age=86400"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    ];
    (headers, ICON).into_response()
}

/// Serves a page or file of the documentation, if built. Otherwise the front page redirects to the API's.
pub(super) async fn guide(State(app): State<App>, path: Option<Path<String>>, headers: HeaderMap) -> Response {
    let path = path.map(|Path(path)| path).unwrap_or_default();
    match app.console_files.as_ref().and_then(|files| files.guide(&path, &headers)) {
        Some(found) => found,
        None if path.is_empty() => {
            let api = app.config.site.base_url.as_str().trim_end_matches('/');
            Redirect::temporary(&format!("{api}/docs")).into_response()
        }
        None => super::not_found().await,
    }
}
