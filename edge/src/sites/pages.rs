//! Our own pages: small, in one style, with nothing loaded from elsewhere.

use std::sync::LazyLock;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
        REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
    },
};
use sha2::{Digest as _, Sha256};

use super::SiteBody;

/// Who may keep a page of ours: nobody.
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// When to try again after a failure of ours, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c1e26;--soft:#5c6070;--ground:#f7f7f9;--card:#fff;--line:#dcdee6;--accent:#2f5bea;--wrong:#b3261e}\
@media(prefers-color-scheme:dark){:root{--ink:#e9eaf0;--soft:#a2a7b8;--ground:#14151a;--card:#1d1f27;--line:#343744;--accent:#8aa6ff;--wrong:#ff8a80}}\
*{box-sizing:border-box}\
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;background:var(--ground);color:var(--ink);font:1rem/1.55 system-ui,sans-serif}\
main{width:100%;max-width:26rem;padding:2rem;background:var(--card);border:1px solid var(--line);border-radius:.9rem}\
h1{margin:0 0 .5rem;font-size:1.35rem;line-height:1.25}\
p{margin:0;color:var(--soft)}\
.code{margin:0 0 .75rem;font-size:.85rem;letter-spacing:.06em}\
form{margin-top:1.25rem;display:grid;gap:.5rem}\
label{font-weight:600}\
input,button{font:inherit;padding:.6rem .75rem;border-radius:.5rem;border:1px solid var(--line)}\
input{width:100%;background:transparent;color:inherit}\
button{margin-top:.5rem;border-color:transparent;background:var(--accent);color:var(--card);font-weight:600;cursor:pointer}\
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}\
a{color:var(--accent);font-weight:600}\
.next{margin-top:1.25rem}\
.wrong{margin-top:.75rem;color:var(--wrong)}";

/// Only our own style and, for the password form, the form.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// A page of ours. `more` is HTML that follows the text.
pub(crate) fn page(status: StatusCode, title: &str, text: &str, more: &str) -> Response<SiteBody> {
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><main><p class=\"code\">{code}</p><h1>{title}</h1><p>{text}</p>{more}</main></body></html>\n",
        code = status.as_u16(),
    );
    let mut response = plain(status);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_LENGTH, html.len().into());
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    *response.body_mut() = Bytes::from(html).into();
    response
}

/// An answer without a body.
pub(crate) fn plain(status: StatusCode) -> Response<SiteBody> {
    let mut response = Response::new(SiteBody::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

/// What `method` may see of an answer: for HEAD, everything but the body.
pub fn seen_by(method: &Method, mut response: Response<SiteBody>) -> Response<SiteBody> {
    if method == Method::HEAD {
        *response.body_mut() = SiteBody::empty();
    }
    response
}

/// 404: nothing is hosted under this name.
pub fn unknown_host() -> Response<SiteBody> {
    page(StatusCode::NOT_FOUND, "No site here", "Nothing is published at this address. Check its spelling.", "")
}

/// 404: a hostname of somebody's leads here, and no project has it.
pub fn unattached_domain() -> Response<SiteBody> {
    let text = "Nothing is published at this address. If the domain is yours, <code>svc domains add</code> attaches it \
                to a project.";
    page(StatusCode::NOT_FOUND, "No site here", text, "")
}

/// 404: the site has no such page, and no 404.html of its own.
pub fn not_found() -> Response<SiteBody> {
    page(StatusCode::NOT_FOUND, "Page not found", "This site has no page at this address.", "")
}

/// 404, without a page: for what a page loads, and for programs.
pub(crate) fn no_such_file() -> Response<SiteBody> {
    const TEXT: &[u8] = b"There is no such file on this site.\n";
    let mut response = plain(StatusCode::NOT_FOUND);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(CONTENT_LENGTH, TEXT.len().into());
    *response.body_mut() = SiteBody::from(Bytes::from_static(TEXT));
    response
}

/// 404: the project exists, and nothing was deployed to it yet.
pub fn nothing_deployed() -> Response<SiteBody> {
    let text = "This site was created, and nothing has been published to it so far.";
    page(StatusCode::NOT_FOUND, "Nothing here yet", text, "")
}

/// 404: the share has expired or was deleted.
pub fn gone() -> Response<SiteBody> {
    page(StatusCode::NOT_FOUND, "This share has ended", "It has expired, or its owner has deleted it.", "")
}

/// 451: the operator has taken the site down.
pub fn suspended() -> Response<SiteBody> {
    let status = StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS;
    page(status, "This site is suspended", "The operator of this service has taken it down.", "")
}

/// 400: the request cannot be understood.
pub fn bad_request() -> Response<SiteBody> {
    page(StatusCode::BAD_REQUEST, "Bad request", "The address or the request is malformed.", "")
}

/// 414: the path is absurdly long.
pub fn too_long() -> Response<SiteBody> {
    page(StatusCode::URI_TOO_LONG, "Address too long", "No page has an address of this length.", "")
}

/// 405: sites are read, not written.
pub fn method_not_allowed() -> Response<SiteBody> {
    let mut response =
        page(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", "Pages can only be read: with GET or HEAD.", "");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// 412: the file is not the one that the request is about.
pub(crate) fn precondition_failed() -> Response<SiteBody> {
    page(StatusCode::PRECONDITION_FAILED, "Precondition failed", "The file has changed since it was last read.", "")
}

/// 416: the file, of `len` bytes, ends before the part asked for.
pub(crate) fn range_not_satisfiable(len: u64) -> Response<SiteBody> {
    let response = plain(StatusCode::RANGE_NOT_SATISFIABLE);
    match HeaderValue::try_from(format!("bytes */{len}")) {
        Ok(range) => with(with(response, CONTENT_RANGE, range), CONTENT_LENGTH, HeaderValue::from_static("0")),
        Err(_) => response,
    }
}

/// 421: this connection was made for another application; on a fresh one the request will do.
pub fn misdirected() -> Response<SiteBody> {
    page(StatusCode::MISDIRECTED_REQUEST, "Misdirected request", "Reload the page to connect again.", "")
}

/// 502: the part behind the edge failed.
pub fn bad_gateway() -> Response<SiteBody> {
    failure(StatusCode::BAD_GATEWAY)
}

/// 503: what the answer needs does not answer now.
pub fn unavailable() -> Response<SiteBody> {
    failure(StatusCode::SERVICE_UNAVAILABLE)
}

fn failure(status: StatusCode) -> Response<SiteBody> {
    let text = "The site could not be read just now. Nothing is lost; try again in a moment.";
    with(page(status, "Briefly unavailable", text, ""), RETRY_AFTER, RETRY_SECONDS)
}

/// A redirect. The location is a value that was checked.
pub(crate) fn redirect(status: StatusCode, location: HeaderValue) -> Response<SiteBody> {
    with(with(plain(status), LOCATION, location), CONTENT_LENGTH, HeaderValue::from_static("0"))
}

/// The answer with a header set.
pub(crate) fn with(mut response: Response<SiteBody>, name: HeaderName, value: HeaderValue) -> Response<SiteBody> {
    response.headers_mut().insert(name, value);
    response
}
