//! Dispatch by host: the console's host serves the console and, under `/api`, the API; all other hosts serve the API.

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderName, Uri, header, uri::PathAndQuery},
    response::Response,
};
use domain::addresses::HostKind;
use tower::ServiceExt as _;

use crate::{App, auth::session::ViaConsole};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const API: &str = "/api";

/// The URI requested at the console's host, before `/api` was stripped from its path.
#[derive(Debug, Clone)]
pub struct OriginalUri(pub Uri);

/// Combines `api` and `console` into a service that dispatches by the requested host.
pub fn dispatch_by_host(app: &App, api: Router, console: Router) -> Router {
    let addresses = app.addresses.clone();
    Router::new().fallback(async move |mut request: Request| -> Response {
        let host = request.uri().host().map(str::to_owned).or_else(|| host(request.headers()));
        let is_consoles = host.is_some_and(|host| addresses.classify(&host) == HostKind::Console);
        let service = match is_consoles.then(|| strip_api_prefix(request.uri())) {
            None => api,
            Some(None) => console,
            Some(Some(path)) => {
                let asked = std::mem::replace(request.uri_mut(), path);
                request.extensions_mut().insert(OriginalUri(asked));
                request.extensions_mut().insert(ViaConsole);
                api
            }
        };
        match service.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    })
}

/// Strips `/api` from a path of the console's host. Returns `None` if the path is the console's own.
fn strip_api_prefix(uri: &Uri) -> Option<Uri> {
    let rest = uri.path_and_query()?.as_str().strip_prefix(API)?;
    let rest = match rest.as_bytes().first() {
        Some(b'/') => rest.to_owned(),
        None | Some(b'?') => format!("/{rest}"),
        Some(_) => return None,
    };
    rest.parse::<PathAndQuery>().ok().map(Uri::from)
}

/// Returns the requested host. A forged one merely selects one of two public services.
fn host(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(X_FORWARDED_HOST).or_else(|| headers.get(header::HOST))?;
    let host = value.to_str().ok()?.trim();
    let host = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(host, |h| h.0);
    Some(host.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_host_is_read_without_port_case_and_dot() {
        let of = |value: &str| host(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(value).unwrap())]));
        assert_eq!(of("App.Svc.Localhost.:8443").as_deref(), Some("app.svc.localhost"));
        assert_eq!(of("app.svc.localhost").as_deref(), Some("app.svc.localhost"));
        assert_eq!(host(&HeaderMap::new()), None);
    }

    #[test]
    fn the_api_is_a_folder_of_the_console() {
        let of = |uri: &'static str| strip_api_prefix(&Uri::from_static(uri)).map(|uri| uri.to_string());
        assert_eq!(of("/api/projects/x?org=y").as_deref(), Some("/projects/x?org=y"));
        assert_eq!(of("/api").as_deref(), Some("/"));
        assert_eq!(of("/api?x").as_deref(), Some("/?x"));
        assert_eq!(of("/apis"), None);
        assert_eq!(of("/"), None);
    }
}
