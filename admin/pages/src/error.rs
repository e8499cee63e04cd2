//! Errors as HTML pages.

use admin_http::{error::ApiError, html};
use axum::{
    http::header,
    response::{IntoResponse, Response},
};

/// An [`ApiError`] shown to a person as a page.
#[derive(Debug)]
pub struct PageError(ApiError);

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut page = html::message(self.0.code().status(), "That did not work", self.0.message());
        // Build the API's response for its side effect, the log line, and for its `Retry-After`.
        let answer = self.0.into_response();
        if let Some(wait) = answer.headers().get(header::RETRY_AFTER) {
            page.headers_mut().insert(header::RETRY_AFTER, wait.clone());
        }
        page
    }
}
