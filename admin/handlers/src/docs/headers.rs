//! Response headers: their meaning, and which of them the layers around a handler add.

use app::middleware::idempotency;
use serde_json::{Map, Value, json};

use super::operation::OperationLayers;

/// The name, schema type and meaning of every header in the document.
const HEADERS: &[(&str, &str, &str)] = &[
    ("Allow", "string", "The methods that the path has."),
    ("Cache-Control", "string", "The time for which the answer may be kept, and the caches that may keep it."),
    ("Content-Disposition", "string", "The name of the file that a browser saves the answer as."),
    ("Content-Security-Policy", "string", "The rights of the answer when a browser shows it by itself."),
    ("Cross-Origin-Resource-Policy", "string", "Which sites may embed the answer."),
    ("ETag", "string", "The version of the content, for `If-None-Match`."),
    (
        "Idempotency-Replayed",
        "string",
        "`true` when this answer was given before, to the same request with the same key.",
    ),
    ("Location", "string", "The address to go to."),
    ("Referrer-Policy", "string", "The part of this address that a browser may tell to the next one."),
    ("Retry-After", "integer", "Seconds to wait before the request is sent again."),
    ("Set-Cookie", "string", "Has the browser forget its session, when that is the one that has ended."),
    ("WWW-Authenticate", "string", "The scheme of authentication: `Bearer`."),
    ("X-Accel-Buffering", "string", "`no`: a proxy hands the answer on as it comes."),
    ("X-Content-Type-Options", "string", "`nosniff`: the `Content-Type` is right."),
    ("X-Frame-Options", "string", "`DENY`: the page may not be shown inside another one."),
    ("X-RateLimit-Limit", "integer", "Requests that the caller may send in one window of the rate limit."),
    ("X-RateLimit-Remaining", "integer", "Requests that are left to the caller in this window."),
    (REQUEST_ID, "string", "The id of this request in the service's log."),
    (
        "X-Svc-Propagation",
        "string",
        "The progress of the change: edges that applied it, edges that are up, time waited; such as `3/3; 9ms`. Absent \
         when the request changed nothing that an edge holds.",
    ),
];
const REQUEST_ID: &str = "X-Request-Id";
const PAGE_HEADERS: [&str; 5] =
    ["Cache-Control", "Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options", "X-Frame-Options"];

pub(super) fn components() -> Value {
    let described = HEADERS.iter().map(|&(name, kind, meaning)| {
        let mut header = json!({ "description": meaning, "schema": { "type": kind } });
        if kind == "integer" {
            header["schema"]["minimum"] = 0.into();
        }
        if name == REQUEST_ID {
            header["required"] = true.into();
        }
        (name.to_owned(), header)
    });
    Value::Object(described.collect())
}

/// Returns a response's headers: those in the handler's attribute (`own`), and those of the layers around it.
pub(super) fn response_headers(
    around: &OperationLayers,
    status: u16,
    own: Option<&Value>,
    is_page: bool,
    is_error: bool,
) -> Value {
    let mut names: Vec<&str> = own.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| &**name).collect();
    names.push(REQUEST_ID);
    if around.is_limited {
        names.extend(["X-RateLimit-Limit", "X-RateLimit-Remaining"]);
    }
    let is_kept = http::StatusCode::from_u16(status).is_ok_and(idempotency::is_stored);
    if around.is_idempotent && is_kept {
        names.push("Idempotency-Replayed");
    }
    if is_page {
        names.extend(PAGE_HEADERS);
    }
    if is_error {
        names.push("Cache-Control");
    }
    match status {
        401 if is_error => names.push("WWW-Authenticate"),
        409 if around.is_idempotent => names.push("Retry-After"),
        429 | 502 | 503 if is_error => names.push("Retry-After"),
        _ => {}
    }
    references(names)
}

pub(super) fn references<'n>(names: impl IntoIterator<Item = &'n str>) -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    let mut sorted: Vec<&str> = names.into_iter().collect();
    sorted.sort_unstable();
    Value::Object(sorted.into_iter().map(|name| (name.to_owned(), reference(name))).collect::<Map<_, _>>())
}
