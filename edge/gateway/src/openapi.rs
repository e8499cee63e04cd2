//! `GET /v1/openapi.json`: the API description for clients.
//!
//! `openapi.json` is written by hand; tests compare its paths, codes, statuses, headers and limits with the code.

use bytes::Bytes;
use http::{HeaderValue, Response, header};

const DOCUMENT: &str = include_str!("openapi.json");
/// The document changes only with a new version of the edge.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=300");

pub(super) fn response() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(DOCUMENT.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
    response
}

#[cfg(test)]
mod tests;
