//! Redirects plain HTTP to HTTPS.

use domain::addresses::{HostKey, HostKind};
use http::{HeaderValue, Method, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_types::{SiteBody, Visitor, pages};

use super::{HostRouter, ResolvedHost, ResponseBody, absent, closing, unread};

impl HostRouter {
    /// Redirects with 308 to HTTPS, at hosts under our domains and custom domains with a site, but no made-up host.
    pub(super) async fn redirect(
        &self,
        place: &ResolvedHost,
        method: &Method,
        uri: &Uri,
        visitor: Visitor,
    ) -> Response<ResponseBody> {
        let page = |page| pages::seen_by(method, page).map(ResponseBody::Site);
        match &place.kind {
            HostKind::Unknown => return page(pages::unknown_host()),
            HostKind::Site(key @ HostKey::Domain(_)) => {
                match self.routes.site(&place.host, key, visitor.address.into()).await {
                    Ok(Some(_)) => {}
                    Ok(None) => return page(absent(key)),
                    Err(error) => return page(unread(place, &error)),
                }
            }
            HostKind::Site(_) | HostKind::Api | HostKind::Console | HostKind::Gateway => {}
        }
        let port = self.public_port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let Ok(location) = HeaderValue::try_from(format!("https://{}{port}{path}", place.host)) else {
            return closing(pages::bad_request()).map(ResponseBody::Site);
        };
        let mut response = Response::new(ResponseBody::Site(SiteBody::empty()));
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        response.headers_mut().insert(header::LOCATION, location);
        response
    }
}
