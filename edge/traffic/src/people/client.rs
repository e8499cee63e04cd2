//! Reads from a request who sent it and for what, before it is answered, because answering consumes the request.

use domain::{
    ProjectId,
    traffic::{
        agents::KnownAgent,
        visitors::{ClassEvidence, VisitorClass},
    },
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_types::accepts_html;

use super::{ClientKind, VisitorHash};
use crate::{
    TrafficCounter,
    agents::{ClientClaim, ClientFields, ClientVerdict},
};

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");

pub struct RequestClient {
    pub(in super::super) who: ClientIdentity,
    pub(in super::super) purpose: FetchPurpose,
    /// The page that led to it, as the client states.
    pub(in super::super) referer: Option<HeaderValue>,
}

#[derive(Clone, Copy)]
pub(in super::super) enum ClientIdentity {
    Known(ClientKind),
    Browser(VisitorHash),
}

/// The purpose of a request, as far as its fields state one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum FetchPurpose {
    /// A page to show, or anything that a program requests.
    Page {
        /// Whether the client has an earlier copy, and so may have those of the page's parts.
        has_copy: bool,
    },
    Part,
    /// A part of a page, if the response can be one and the page that led to it belongs to the same site.
    MaybePart,
    Other,
}

impl FetchPurpose {
    /// Determines the purpose of a browser's request.
    fn from_request(method: &Method, headers: &HeaderMap) -> Self {
        if method != Method::GET || headers.contains_key(SEC_PURPOSE) {
            return Self::Other;
        }
        let field = |name| headers.get(name).map(HeaderValue::as_bytes);
        match field(SEC_FETCH_DEST) {
            Some(b"document") => Self::page(headers),
            // A navigation passed on by a service worker.
            Some(b"empty") if field(SEC_FETCH_MODE) == Some(b"navigate") => Self::page(headers),
            Some(b"style" | b"script" | b"image" | b"font") => {
                let is_own = matches!(field(SEC_FETCH_SITE), Some(b"same-origin" | b"same-site"));
                if is_own { Self::Part } else { Self::Other }
            }
            Some(_) => Self::Other,
            // Browsers send it over HTTPS only, and old ones never.
            None if accepts_html(headers) => Self::page(headers),
            None => Self::MaybePart,
        }
    }

    fn page(headers: &HeaderMap) -> Self {
        let has_copy = headers.contains_key(header::IF_NONE_MATCH) || headers.contains_key(header::IF_MODIFIED_SINCE);
        Self::Page { has_copy }
    }
}

impl RequestClient {
    pub fn agent(&self) -> Option<&'static KnownAgent> {
        match self.who {
            ClientIdentity::Known(kind) => kind.agent,
            ClientIdentity::Browser(_) => None,
        }
    }
}

impl TrafficCounter {
    /// Determines who sent `request` to the site of `project`, and for what purpose.
    pub fn classify_client(&self, request: &ClientClaim<'_>, project: &ProjectId) -> RequestClient {
        let fields = ClientFields::from_headers(request.headers);
        let known = |class, agent, evidence| {
            let has_copy = false;
            let purpose =
                if request.method == Method::GET { FetchPurpose::Page { has_copy } } else { FetchPurpose::Other };
            (ClientIdentity::Known(ClientKind { class, agent, evidence }), purpose)
        };
        let (who, purpose) = match self.agents.judge(request, &fields) {
            ClientVerdict::Agent { agent, evidence } => known(agent.class, Some(agent), evidence),
            ClientVerdict::Automation => known(VisitorClass::Automation, None, ClassEvidence::Fields),
            ClientVerdict::Browser => {
                let user_agent = fields.user_agent.map_or(&b""[..], HeaderValue::as_bytes);
                let visitor = self.salts.visitor(project, request.address, user_agent);
                (ClientIdentity::Browser(visitor), FetchPurpose::from_request(request.method, request.headers))
            }
        };
        RequestClient { who, purpose, referer: fields.referer.cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_is_for_stands_in_its_fields() {
        let purpose = |fields: &[(&str, &str)]| {
            let field = |(name, value): &(&str, &str)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
            };
            FetchPurpose::from_request(&Method::GET, &fields.iter().map(field).collect())
        };
        let page = FetchPurpose::Page { has_copy: false };
        for (fields, expected) in [
            (&[("sec-fetch-dest", "document")][..], page),
            (&[("accept", "text/html,*/*;q=0.8")], page),
            (&[("sec-fetch-dest", "document"), ("if-none-match", "\"x\"")], FetchPurpose::Page { has_copy: true }),
            (&[("accept", "text/html"), ("if-modified-since", "x")], FetchPurpose::Page { has_copy: true }),
            (&[("sec-fetch-dest", "document"), ("sec-purpose", "prefetch;prerender")], FetchPurpose::Other),
            (&[("sec-fetch-dest", "style"), ("sec-fetch-site", "same-origin")], FetchPurpose::Part),
            (&[("sec-fetch-dest", "font"), ("sec-fetch-site", "same-site")], FetchPurpose::Part),
            (&[("sec-fetch-dest", "image"), ("sec-fetch-site", "cross-site")], FetchPurpose::Other),
            (&[("sec-fetch-dest", "image")], FetchPurpose::Other),
            (&[("sec-fetch-dest", "iframe"), ("accept", "text/html")], FetchPurpose::Other),
            (&[("sec-fetch-dest", "empty"), ("sec-fetch-mode", "cors")], FetchPurpose::Other),
            (&[("sec-fetch-dest", "empty"), ("sec-fetch-mode", "navigate")], page),
            (&[("accept", "*/*")], FetchPurpose::MaybePart),
            (&[], FetchPurpose::MaybePart),
        ] {
            assert_eq!(purpose(fields), expected, "{fields:?}");
        }
        assert_eq!(FetchPurpose::from_request(&Method::HEAD, &HeaderMap::new()), FetchPurpose::Other);
    }
}
