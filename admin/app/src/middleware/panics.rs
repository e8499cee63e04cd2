//! Turns a panic in a handler into a 500 for that request.

use std::any::Any;

use admin_http::error::ApiError;
use axum::response::{IntoResponse as _, Response};

/// Returns the response to a request whose handler panicked.
#[expect(clippy::needless_pass_by_value, reason = "the signature CatchPanicLayer asks for")]
pub fn panic_response(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    ApiError::internal(anyhow::anyhow!("panic: {}", text.unwrap_or("without a message"))).into_response()
}
