//! What went wrong, as a page.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};

use super::message;
use crate::{error::ApiError, pages::escape};

/// An error that a person sees.
#[derive(Debug)]
pub struct Problem(ApiError);

impl<E: Into<ApiError>> From<E> for Problem {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, sentence) = (self.0.code().status(), escape(self.0.message()));
        // Made for its log line, and for what it says of when to try again.
        let answer = self.0.into_response();
        let mut page = message(status, "That did not work", &sentence);
        if let Some(wait) = answer.headers().get(header::RETRY_AFTER) {
            page.headers_mut().insert(header::RETRY_AFTER, wait.clone());
        }
        page
    }
}
