//! Responses to requests that are refused before their target is known, in the form of the host's other responses.

use bytes::Bytes;
use domain::addresses::HostKind;
use http::{HeaderMap, HeaderValue, Response, header};
use http_types::{HttpFault, RequestIds, SERVER, SiteBody, pages};

use super::place::ResolvedHost;

/// The form of a refusal, which is that of the other responses of the requested host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseForm {
    /// A page for people.
    Page,
    /// The API's error envelope.
    Api,
    /// `OpenAI`'s error envelope.
    Gateway,
}

impl ResponseForm {
    pub(crate) fn at(place: Option<&ResolvedHost>) -> Self {
        match place.map(|place| &place.kind) {
            Some(HostKind::Api) => Self::Api,
            Some(HostKind::Gateway) => Self::Gateway,
            Some(HostKind::Console | HostKind::Site(_) | HostKind::Unknown) | None => Self::Page,
        }
    }
}

/// Returns the response that refuses a request with these `headers`, as far as they are known.
pub(super) fn refuse(form: ResponseForm, fault: HttpFault, headers: &HeaderMap) -> Response<SiteBody> {
    let id = || RequestIds::default().id_for(headers);
    let mut response = match (form, fault) {
        (ResponseForm::Api, _) => platform::refusal(fault, id()).map(SiteBody::from),
        (ResponseForm::Gateway, _) => gateway::refusal(fault, id()).map(SiteBody::from),
        (ResponseForm::Page, HttpFault::Misdirected) => pages::misdirected(),
        (ResponseForm::Page, HttpFault::Malformed | HttpFault::CookiesTooLarge) => pages::bad_request(),
    };
    let headers = response.headers_mut();
    headers.insert(header::SERVER, SERVER);
    if fault == HttpFault::Malformed {
        // Nothing further on the connection can be trusted.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns headers and body of the response to a head that is too large because of its cookies, which clears them.
pub fn cookies_too_large(form: ResponseForm) -> (HeaderMap, Bytes) {
    let id = || RequestIds::default().id_for(&HeaderMap::new());
    let fault = HttpFault::CookiesTooLarge;
    let (mut headers, body) = match form {
        ResponseForm::Page => pages::cookies_too_large(),
        ResponseForm::Api => in_parts(platform::refusal(fault, id())),
        ResponseForm::Gateway => in_parts(gateway::refusal(fault, id())),
    };
    headers.insert(pages::CLEAR_SITE_DATA, HeaderValue::from_static("\"cookies\""));
    (headers, body)
}

fn in_parts(response: Response<Bytes>) -> (HeaderMap, Bytes) {
    let (parts, body) = response.into_parts();
    (parts.headers, body)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use http_types::X_REQUEST_ID;

    #[test]
    fn every_fault_is_answered_in_the_hosts_form() {
        let addresses = config::Site::default().addresses();
        let form = |host: &str| ResponseForm::at(Some(&ResolvedHost::classify(&addresses, host)));
        assert_eq!([form("api.svc.localhost"), form("ai.svc.localhost")], [ResponseForm::Api, ResponseForm::Gateway]);
        for host in ["app.svc.localhost", "blog.svc.localhost", "example.com"] {
            assert_eq!(form(host), ResponseForm::Page, "{host}");
        }
        for (fault, status) in
            [(HttpFault::Malformed, 400), (HttpFault::Misdirected, 421), (HttpFault::CookiesTooLarge, 431)]
        {
            for (form, envelope) in
                [(ResponseForm::Api, "code message"), (ResponseForm::Gateway, "code message param type")]
            {
                let response = match form {
                    ResponseForm::Api => platform::refusal(fault, HeaderValue::from_static("req_12345678")),
                    _ => gateway::refusal(fault, HeaderValue::from_static("req_12345678")),
                };
                assert_eq!(response.status().as_u16(), status, "{form:?}");
                assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json", "{form:?}");
                assert_eq!(response.headers()[X_REQUEST_ID], "req_12345678", "{form:?}");
                let body: Value = serde_json::from_slice(response.body()).unwrap();
                let mut keys: Vec<_> = body["error"].as_object().unwrap().keys().map(String::as_str).collect();
                keys.sort_unstable();
                assert_eq!(keys.join(" "), envelope, "{form:?} {fault:?}");
            }
            let given = HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_static("given-id-1"))]);
            assert_eq!(refuse(ResponseForm::Api, fault, &given).headers()[X_REQUEST_ID], "given-id-1");
            assert!(
                refuse(ResponseForm::Page, fault, &given).headers()[header::CONTENT_TYPE]
                    .as_bytes()
                    .starts_with(b"text/html")
            );
        }
        for form in [ResponseForm::Page, ResponseForm::Api, ResponseForm::Gateway] {
            let (headers, body) = cookies_too_large(form);
            assert_eq!(headers[pages::CLEAR_SITE_DATA], "\"cookies\"", "{form:?}");
            assert_eq!(headers[header::CONTENT_LENGTH], body.len().to_string(), "{form:?}");
        }
    }
}
