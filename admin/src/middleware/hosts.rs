//! The console's host is not the API's: what is asked there is answered by the console.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use common::routes::addresses::HostKind;

use crate::{
    api,
    app::App,
    error::{ApiError, Code},
};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Middleware: keeps requests for the console away from the API.
pub async fn separate(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = request.uri().host().map(str::to_owned).or_else(|| host(request.headers()));
    if host.is_none_or(|host| app.addresses.classify(&host) != HostKind::Console) {
        return next.run(request).await;
    }
    if request.uri().path() == "/" {
        api::docs::console(&app)
    } else {
        ApiError::new(Code::NotFound, "The console is not there yet; the API is at its own address.").into_response()
    }
}

/// The host that was asked for. A forged one only chooses between two public places.
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
}
