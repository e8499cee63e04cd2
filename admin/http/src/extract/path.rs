//! Path parameters. A parameter that is not a valid id or name results in 404.

use axum::{extract::FromRequestParts, http::request::Parts};
use serde::de::DeserializeOwned;

use crate::error::{ApiError, Code, PossibleError};

/// The errors of [`Path`], and of every other extractor that reads the path's parameters.
pub const PATH_ERRORS: &[PossibleError] =
    &[PossibleError::new(Code::NotFound, "what the path names does not exist, or the caller may not know of it")];

/// The parameters of the path.
#[derive(Debug, Clone)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        if has_nul(parts) {
            return Err(ApiError::not_found("thing"));
        }
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(parameters)| Self(parameters))
            .map_err(|_| ApiError::not_found("thing"))
    }
}

/// Returns whether the path contains a NUL, which no name contains and Postgres rejects.
fn has_nul(parts: &Parts) -> bool {
    parts.uri.path().contains("%00")
}
