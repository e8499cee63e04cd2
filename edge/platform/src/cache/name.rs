//! The names of cacheable responses of admin: exact forms of addresses whose responses are the same for everybody.

use std::{str::FromStr as _, time::Duration};

use domain::{OrgName, addresses::HostKind};
use http::{HeaderValue, Method, Request};
use http_body::Body;
use http_types::{AcceptedCodings, Visitor};
use packs::Encoding;

/// The folder of the console's files that have a content hash in their name.
const ASSETS: &str = "/_app/immutable/";
const VERSION_LEN: usize = 16;
/// The API description, which is the same for everybody and changes only with admin's program.
const DOCUMENT: &str = "/openapi.json";

/// The name of a public response of admin: its coding, host, path and query, each in one form only. An address in any
/// other form has no name and bypasses the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicName {
    /// The parts, separated by spaces, which none of them can contain.
    text: HeaderValue,
    kind: PublicKind,
    takes_brotli: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublicKind {
    /// A file of the console with a content hash in its name.
    Asset,
    /// The current icon of an organization.
    Icon,
    /// An icon of an organization with a version in its address.
    VersionedIcon,
    Document,
}

impl PublicName {
    /// Returns the name of what `request` asks for at `host`, which is lower case, without port, and of kind `place`.
    /// `None` if it is not public, or the address does not have the form of a name.
    pub fn from_request<B: Body>(request: &Request<B>, host: &str, place: &HostKind, visitor: Visitor) -> Option<Self> {
        // The console redirects requests without TLS.
        let is_plain_read = matches!(*request.method(), Method::GET | Method::HEAD) && request.body().is_end_stream();
        if !is_plain_read || !visitor.tls {
            return None;
        }
        let (path, query) = (request.uri().path(), request.uri().query());
        if path.len() > limits::CACHED_PATH_BYTES {
            return None;
        }
        let kind = match place {
            HostKind::Console if path.starts_with(ASSETS) => asset(path, query)?,
            HostKind::Console => icon(path.strip_prefix("/api")?, query)?,
            HostKind::Api if path == DOCUMENT && query.is_none() => PublicKind::Document,
            HostKind::Api => icon(path, query)?,
            HostKind::Gateway | HostKind::Site(_) | HostKind::Unknown => return None,
        };
        let accepted = AcceptedCodings::from_headers(request.headers());
        if !accepted.takes_identity() {
            return None;
        }
        let takes_brotli =
            kind == PublicKind::Asset && accepted.choose([(None, 1), (Some(Encoding::Br), 0)].into_iter()) == 1;
        let coding = if takes_brotli { "br" } else { "identity" };
        let (mark, query) = query.map_or(("", ""), |query| ("?", query));
        let text = HeaderValue::try_from(format!("{coding} {host} {path}{mark}{query}")).ok()?;
        Some(Self { text, kind, takes_brotli })
    }

    pub(crate) fn parse(text: &HeaderValue) -> Option<Self> {
        let mut parts = text.to_str().ok()?.split(' ');
        let (coding, _host, target) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = match target {
            asset if asset.starts_with(ASSETS) => PublicKind::Asset,
            DOCUMENT => PublicKind::Document,
            icon if icon.contains('?') => PublicKind::VersionedIcon,
            _ => PublicKind::Icon,
        };
        Some(Self { text: text.clone(), kind, takes_brotli: coding == "br" })
    }

    pub(super) fn text(&self) -> &HeaderValue {
        &self.text
    }

    /// Returns the `Accept-Encoding` for the request to admin; `None` if no coding is accepted.
    pub(super) fn accept_encoding(&self) -> Option<HeaderValue> {
        self.takes_brotli.then_some(HeaderValue::from_static("br"))
    }

    /// Returns whether a response in `coding` may be cached under the name.
    pub(super) fn allows_coding(&self, coding: Option<&HeaderValue>) -> bool {
        coding.is_none_or(|coding| self.takes_brotli && coding == "br")
    }

    /// Returns whether the response may change, and so has to name the subject that changes it.
    pub(super) fn can_change(&self) -> bool {
        matches!(self.kind, PublicKind::Icon | PublicKind::VersionedIcon)
    }

    /// Returns how long a response is cached under the name if no change ends it.
    pub(super) fn max_age(&self) -> Option<Duration> {
        (self.kind == PublicKind::Document).then_some(limits::DOCUMENT_LIFE)
    }

    /// Returns whether a response has to be declared immutable to be cached. An icon with an outdated version is not:
    /// otherwise made-up versions could fill the cache with one icon.
    pub(super) fn needs_immutable(&self) -> bool {
        matches!(self.kind, PublicKind::Asset | PublicKind::VersionedIcon)
    }
}

/// Matches an asset's path: segments of harmless characters, none of which leads elsewhere.
fn asset(path: &str, query: Option<&str>) -> Option<PublicKind> {
    let rest = path.strip_prefix(ASSETS).filter(|_| query.is_none())?;
    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_segment = |segment: &str| !segment.trim_matches('.').is_empty() && segment.bytes().all(is_harmless);
    rest.split('/').all(is_segment).then_some(PublicKind::Asset)
}

/// Matches the path of an organization's icon, with at most a version.
fn icon(path: &str, query: Option<&str>) -> Option<PublicKind> {
    let name = path.strip_prefix("/orgs/")?.strip_suffix("/icon")?;
    let _name = OrgName::from_str(name).ok().filter(|parsed| parsed.as_str() == name)?;
    let Some(query) = query else { return Some(PublicKind::Icon) };
    let version = query.strip_prefix("v=")?;
    let is_version =
        version.len() == VERSION_LEN && version.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_version.then_some(PublicKind::VersionedIcon)
}

#[cfg(test)]
mod tests {
    use http::header;
    use http_body_util::{Empty, Full};

    use super::*;

    const TLS: Visitor = Visitor { address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), tls: true };

    fn named(place: &HostKind, target: &str, accepted: Option<&str>) -> Option<String> {
        let mut request = Request::get(target);
        if let Some(accepted) = accepted {
            request = request.header(header::ACCEPT_ENCODING, accepted);
        }
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let name = PublicName::from_request(&request, "app.x", place, TLS)?;
        assert_eq!(PublicName::parse(name.text()).as_ref(), Some(&name), "{target}");
        Some(name.text().to_str().unwrap().to_owned())
    }

    #[test]
    fn assets_and_icons_have_names() {
        let (console, api) = (HostKind::Console, HostKind::Api);
        for (place, target, accepted, expected) in [
            (&console, "/_app/immutable/a/b.C-d_1.js", None, "identity app.x /_app/immutable/a/b.C-d_1.js"),
            (&console, "/_app/immutable/a.js", Some("gzip, deflate, br, zstd"), "br app.x /_app/immutable/a.js"),
            (&console, "/_app/immutable/a.js", Some("gzip, br;q=0"), "identity app.x /_app/immutable/a.js"),
            (&console, "/_app/immutable/a.js", Some("identity, br;q=0.5"), "identity app.x /_app/immutable/a.js"),
            (&console, "/_app/immutable/a.js", Some("*"), "br app.x /_app/immutable/a.js"),
            (&console, "/api/orgs/acme/icon", Some("br"), "identity app.x /api/orgs/acme/icon"),
            (&api, "/openapi.json", Some("br"), "identity app.x /openapi.json"),
            (&api, "/orgs/acme/icon?v=0123456789abcdef", None, "identity app.x /orgs/acme/icon?v=0123456789abcdef"),
        ] {
            assert_eq!(named(place, target, accepted).as_deref(), Some(expected), "{target} {accepted:?}");
        }
    }

    #[test]
    fn every_other_form_has_none() {
        for target in [
            "/",
            "/_app/immutable/",
            "/_app/immutable//a.js",
            "/_app/immutable/a.js/",
            "/_app/immutable/./a.js",
            "/_app/immutable/../a.js",
            "/_app/immutable/.../a.js",
            "/_app/immutable/x/..%2fa.js",
            "/_app/immutable/%61.js",
            "/_app/immutable/a.js?",
            "/_app/immutable/a.js?v=1",
            "/_app/immutable/a;b.js",
            "//_app/immutable/a.js",
            "/_APP/immutable/a.js",
            "/_app%2fimmutable/a.js",
            "/_app/version.json",
            "/openapi.json",
            "/index.html",
            "/orgs/acme/icon",
            "/api/orgs/acme/icon/",
            "/api/orgs/acme%2ficon",
            "/api/orgs/../icon",
            "/api/orgs/a/b/icon",
            "/api/orgs/ACME/icon",
            "/api/orgs/acme/icon?v=",
            "/api/orgs/acme/icon?v=0123456789ABCDEF",
            "/api/orgs/acme/icon?v=0123456789abcdef&x=1",
            "/api/orgs/acme/icon?x=1",
            "/api//orgs/acme/icon",
        ] {
            assert_eq!(named(&HostKind::Console, target, None), None, "{target}");
        }
        for target in ["/_app/immutable/a.js", "/api/orgs/acme/icon", "/openapi.json?x", "/openapi.json/"] {
            assert_eq!(named(&HostKind::Api, target, None), None, "{target}");
        }
        assert_eq!(named(&HostKind::Gateway, "/orgs/acme/icon", None), None);
        assert_eq!(named(&HostKind::Console, "/_app/immutable/a.js", Some("identity;q=0")), None);
        let long = format!("/_app/immutable/{}", "a".repeat(limits::CACHED_PATH_BYTES));
        assert_eq!(named(&HostKind::Console, &long, None), None);
    }

    #[test]
    fn what_is_no_plain_read_over_tls_has_none() {
        let request = |method: Method, body: &'static str| {
            let request = Request::builder().method(method).uri("/_app/immutable/a.js");
            request.body(Full::new(bytes::Bytes::from_static(body.as_bytes()))).unwrap()
        };
        let of = |request: &Request<Full<bytes::Bytes>>, visitor| {
            PublicName::from_request(request, "app.x", &HostKind::Console, visitor).is_some()
        };
        assert!(of(&request(Method::GET, ""), TLS) && of(&request(Method::HEAD, ""), TLS));
        assert!(!of(&request(Method::GET, "body"), TLS) && !of(&request(Method::POST, ""), TLS));
        assert!(!of(&request(Method::GET, ""), Visitor { tls: false, ..TLS }));
    }
}
