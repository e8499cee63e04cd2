//! Responses that need no provider.

use bytes::Bytes;
use gateway_request::error::ApiError;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body as _;
use http_types::{HttpFault, X_REQUEST_ID};

use super::body::GatewayBody;

/// Turns a response into that for HEAD. The body must go: over HTTP/2, hyper sends any body there is.
pub(super) fn without_body(response: Response<GatewayBody>) -> Response<GatewayBody> {
    let (mut head, body) = response.into_parts();
    if let Some(len) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    Response::from_parts(head, Bytes::new().into())
}

pub(super) fn json_response(body: Bytes) -> Response<GatewayBody> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn options(methods: &'static str) -> Response<GatewayBody> {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

/// Returns the gateway's response to a faulty request that never reaches it. `id` is the request's id.
pub fn refusal(fault: HttpFault, id: HeaderValue) -> Response<Bytes> {
    let mut response = ApiError::from(fault).into_response();
    let length = response.body().len();
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}
