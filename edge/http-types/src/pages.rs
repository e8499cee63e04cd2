//! The edge's own pages, and responses without a body. A page loads nothing.
//!
//! Texts are here or in the `templates` of a crate; `common/templates` has the layout and stylesheet, shared with admin's pages.

use std::{
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use askama::Template;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use domain::site::Suspension;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
        REFERRER_POLICY, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use packs::Encoding;
use sha2::{Digest as _, Sha256};

use super::{SiteBody, X_REQUEST_ID};

/// Our pages must not be cached: they change with the state they report.
pub const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// The value of `X-Content-Type-Options`, which keeps browsers from guessing the type of a response.
pub const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// The header that tells a browser to delete what it has stored for the site, such as cookies.
pub const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// Seconds after which a visitor may retry after a failure of ours.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The stylesheet as the layout inlines it, in two parts.
const STYLE: [&str; 2] = [
    include_str!("../../../common/templates/tokens.css").trim_ascii_end(),
    include_str!("../../../common/templates/style.css").trim_ascii_end(),
];

/// Allows only the inlined stylesheet, and forms to the site itself.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE.concat()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// A page with a title and one text. Parts of `text` between backticks are code.
#[derive(Template)]
#[template(path = "notice.html")]
struct NoticePage<'a> {
    status: StatusCode,
    title: &'a str,
    text: &'a str,
}

/// A notice with a constant text, rendered on first use.
struct StaticPage {
    notice: NoticePage<'static>,
    html: OnceLock<Bytes>,
}

impl StaticPage {
    const fn new(status: StatusCode, title: &'static str, text: &'static str) -> Self {
        Self { notice: NoticePage { status, title, text }, html: OnceLock::new() }
    }

    fn html(&self) -> &Bytes {
        self.html.get_or_init(|| render_html(&self.notice))
    }

    fn response(&self) -> Response<SiteBody> {
        respond(self.notice.status, self.html().clone())
    }
}

static UNKNOWN_HOST: StaticPage =
    StaticPage::new(StatusCode::NOT_FOUND, "No site here", "Nothing is published at this address. Check its spelling.");
static UNATTACHED_DOMAIN: StaticPage = StaticPage::new(
    StatusCode::NOT_FOUND,
    "No site here",
    "Nothing is published at this address. If the domain is yours, `svc domains add` attaches it to a project.",
);
static PAGE_NOT_FOUND: StaticPage =
    StaticPage::new(StatusCode::NOT_FOUND, "Page not found", "This site has no page at this address.");
static NOTHING_DEPLOYED: StaticPage = StaticPage::new(
    StatusCode::NOT_FOUND,
    "Nothing here yet",
    "This site was created, and nothing has been published to it so far.",
);
static COOKIES_TOO_LARGE: StaticPage = StaticPage::new(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "Too many cookies",
    "A site of this domain has left more cookies in your browser than can be read. They were cleared, and you may have to sign in \
     again. Load this page once more.",
);
static SHARE_ENDED: StaticPage = StaticPage::new(
    StatusCode::NOT_FOUND,
    "No share here",
    "It has expired or was deleted, or its address is misspelled.",
);

/// Returns a page with a title and one text. Parts of `text` between backticks are code.
pub fn page(status: StatusCode, title: &str, text: &str) -> Response<SiteBody> {
    render(status, &NoticePage { status, title, text })
}

/// Renders `template` as a page that loads nothing. A template that fails is logged, and its page is empty.
pub fn render(status: StatusCode, template: &impl Template) -> Response<SiteBody> {
    respond(status, render_html(template))
}

fn render_html(template: &impl Template) -> Bytes {
    // A template fails only if a value cannot be formatted, and ours all can.
    template.render().map_or_else(
        |error| {
            tracing::error!(%error, "a page could not be rendered");
            Bytes::new()
        },
        Bytes::from,
    )
}

fn respond(status: StatusCode, html: Bytes) -> Response<SiteBody> {
    let mut response = empty_response(status);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_LENGTH, html.len().into());
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    *response.body_mut() = html.into();
    response
}

/// Returns a response without a body, which must not be cached.
pub fn empty_response(status: StatusCode) -> Response<SiteBody> {
    let mut response = Response::new(SiteBody::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

/// Removes the body if `method` is HEAD.
pub fn seen_by(method: &Method, mut response: Response<SiteBody>) -> Response<SiteBody> {
    if method == Method::HEAD {
        *response.body_mut() = SiteBody::empty();
    }
    response
}

/// 404: no site has this name.
pub fn unknown_host() -> Response<SiteBody> {
    UNKNOWN_HOST.response()
}

/// 404: a customer's hostname points here, but no project has it attached.
pub fn unattached_domain() -> Response<SiteBody> {
    UNATTACHED_DOMAIN.response()
}

/// 404: the site has no such page, and no 404.html of its own.
pub fn not_found() -> Response<SiteBody> {
    PAGE_NOT_FOUND.response()
}

/// 429: the client has requested too many missing shares, and has to wait for `wait` before another lookup.
pub fn too_many_unknown(wait: Duration) -> Response<SiteBody> {
    let text = "Too many shares that do not exist were asked for from this network. Wait a minute, then try again.";
    with_header(page(StatusCode::TOO_MANY_REQUESTS, "Too many tries", text), RETRY_AFTER, (wait.as_secs() + 1).into())
}

/// 410: the site says that this page is gone permanently.
pub fn page_gone() -> Response<SiteBody> {
    page(StatusCode::GONE, "Page gone", "This page was removed and will not come back.")
}

/// 404 without a page, for subresources and programs.
pub fn no_such_file() -> Response<SiteBody> {
    const TEXT: &[u8] = b"There is no such file on this site.\n";
    let mut response = empty_response(StatusCode::NOT_FOUND);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(CONTENT_LENGTH, TEXT.len().into());
    *response.body_mut() = SiteBody::from(Bytes::from_static(TEXT));
    response
}

/// 404: the project exists, but has no deployment yet.
pub fn nothing_deployed() -> Response<SiteBody> {
    NOTHING_DEPLOYED.response()
}

/// 404: the share has expired, was deleted, or never existed.
pub fn share_ended() -> Response<SiteBody> {
    SHARE_ENDED.response()
}

/// 403, or 451 where a law demands it: the operator has suspended the site, without saying why or at whose request.
pub fn suspended(reason: Suspension) -> Response<SiteBody> {
    let status = match reason {
        Suspension::Legal => StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS,
        Suspension::Abuse | Suspension::Payment => StatusCode::FORBIDDEN,
    };
    page(status, "This site is suspended", "The operator of this service has taken it down.")
}

/// 400: the request is malformed.
pub fn bad_request() -> Response<SiteBody> {
    page(StatusCode::BAD_REQUEST, "Bad request", "The address or the request is malformed.")
}

/// 414: the path is too long.
pub fn too_long() -> Response<SiteBody> {
    page(StatusCode::URI_TOO_LONG, "Address too long", "No page has an address of this length.")
}

/// 431: headers and body of a page for a browser that sends too many cookies.
pub fn cookies_too_large() -> (HeaderMap, Bytes) {
    let (parts, _) = COOKIES_TOO_LARGE.response().into_parts();
    (parts.headers, COOKIES_TOO_LARGE.html().clone())
}

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// 204: lists the methods that sites support.
pub fn options() -> Response<SiteBody> {
    with_header(empty_response(StatusCode::NO_CONTENT), ALLOW, METHODS)
}

/// 405: sites are read-only.
pub fn method_not_allowed() -> Response<SiteBody> {
    let mut response =
        page(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", "Pages can only be read: with GET or HEAD.");
    response.headers_mut().insert(ALLOW, METHODS);
    response
}

/// 406: the file is stored in a coding that the client does not accept, and is too large to be decoded for it.
pub fn not_acceptable(encoding: Encoding) -> Response<SiteBody> {
    let encoding = encoding.token();
    let text = format!("This file is stored compressed. Ask for it with `Accept-Encoding: {encoding}`.");
    let page = page(StatusCode::NOT_ACCEPTABLE, "Not without compression", &text);
    with_header(page, VARY, HeaderValue::from_static("Accept-Encoding"))
}

/// 412: the file is not the one that `If-Match` or `If-Unmodified-Since` requires.
pub fn precondition_failed() -> Response<SiteBody> {
    page(StatusCode::PRECONDITION_FAILED, "Precondition failed", "The file has changed since it was last read.")
}

/// 416: the file, of `len` bytes, ends before the requested range.
pub fn range_not_satisfiable(len: u64) -> Response<SiteBody> {
    let response = empty_response(StatusCode::RANGE_NOT_SATISFIABLE);
    match HeaderValue::try_from(format!("bytes */{len}")) {
        Ok(range) => {
            with_header(with_header(response, CONTENT_RANGE, range), CONTENT_LENGTH, HeaderValue::from_static("0"))
        }
        Err(_) => response,
    }
}

/// 421: this connection is for another application; a new one will do.
pub fn misdirected() -> Response<SiteBody> {
    page(StatusCode::MISDIRECTED_REQUEST, "Misdirected request", "Reload the page to connect again.")
}

/// 502: the service behind the edge failed.
pub fn bad_gateway() -> Response<SiteBody> {
    failure(StatusCode::BAD_GATEWAY)
}

/// 503: a dependency of the response is unavailable.
pub fn unavailable() -> Response<SiteBody> {
    failure(StatusCode::SERVICE_UNAVAILABLE)
}

fn failure(status: StatusCode) -> Response<SiteBody> {
    let text = "The site could not be read just now; try again in a moment.";
    with_header(page(status, "Briefly unavailable", text), RETRY_AFTER, RETRY_SECONDS)
}

/// 503: the site could not be read. The log has the failure under `id`.
pub fn read_failed(id: HeaderValue) -> Response<SiteBody> {
    let text = format!(
        "The site could not be read just now; try again in a moment. If it lasts, the operator finds the cause by the id `{}`.",
        id.to_str().unwrap_or_default()
    );
    failed("Briefly unavailable", &text, id)
}

/// 503: files of the site are lost or damaged. The log has the failure under `id`.
pub fn damaged(id: HeaderValue) -> Response<SiteBody> {
    let text = format!(
        "Files of this site are lost or damaged on the server, and have to be brought back. To try again helps only then. The operator finds \
         the cause by the id `{}`; who publishes the site can do so again.",
        id.to_str().unwrap_or_default()
    );
    failed("Unavailable", &text, id)
}

fn failed(title: &str, text: &str, id: HeaderValue) -> Response<SiteBody> {
    let response = with_header(page(StatusCode::SERVICE_UNAVAILABLE, title, text), RETRY_AFTER, RETRY_SECONDS);
    with_header(response, X_REQUEST_ID, id)
}

/// Returns a redirect to `location` without a page; `status` is one of the 3xx.
pub fn redirect(status: StatusCode, location: HeaderValue) -> Response<SiteBody> {
    with_header(with_header(empty_response(status), LOCATION, location), CONTENT_LENGTH, HeaderValue::from_static("0"))
}

/// Sets a header of `response`, which replaces any value that it had.
pub fn with_header(mut response: Response<SiteBody>, name: HeaderName, value: HeaderValue) -> Response<SiteBody> {
    response.headers_mut().insert(name, value);
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn text(response: Response<SiteBody>) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_policy_allows_the_style_that_the_page_has() {
        let response = not_found();
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let length = response.headers()[CONTENT_LENGTH].to_str().unwrap().to_owned();
        let html = text(response).await;
        let (_, rest) = html.split_once("<style>").unwrap();
        let (style, _) = rest.split_once("</style>").unwrap();
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(policy.contains(&format!("style-src 'sha256-{hash}'")), "{policy}");
        assert_eq!(length, html.len().to_string());
    }

    #[tokio::test]
    async fn words_between_backticks_are_code_and_nothing_else_is_markup() {
        let html = text(page(StatusCode::NOT_FOUND, "<b>", "one `<two>` & three")).await;
        assert!(html.contains("one <code>&#60;two&#62;</code> &#38; three"), "{html}");
        assert!(html.contains("<h1>&#60;b&#62;</h1>") && html.contains("<title>&#60;b&#62;</title>"), "{html}");
    }
}
