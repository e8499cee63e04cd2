//! Ends the connection after a refusal that came before the body was read.

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    middleware::Next,
    response::Response,
};

/// Bodies up to this size the server reads to their end by itself, and keeps the connection.
const DRAINED_BYTES: u64 = 64 * 1024;

/// Middleware: the server closes a connection whose request body it did not read. Saying so keeps the client, or the
/// edge, from sending its next request there and losing it.
pub async fn after_refused_bodies(request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let is_long = length.map_or_else(
        || request.headers().contains_key(header::TRANSFER_ENCODING),
        |length: u64| length > DRAINED_BYTES,
    );
    let mut response = next.run(request).await;
    if is_long && !response.status().is_success() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
