//! Query parameters. Unknown ones are ignored.

use axum::{extract::FromRequestParts, http::request::Parts};
use serde::de::DeserializeOwned;

use crate::error::{ApiError, Code, PossibleError};

/// The errors of [`Query`] and [`super::PageQuery`].
pub const QUERY_ERRORS: &[PossibleError] =
    &[PossibleError::new(Code::InvalidRequest, "a query parameter breaks a rule; the message names it")];

/// The parameters of the query.
#[derive(Debug, Clone)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        parse(parts.uri.query().unwrap_or_default()).map(Self).map_err(ApiError::invalid)
    }
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T, String> {
    let pairs = serde_urlencoded::Deserializer::new(url::form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let reason = error.inner().to_string();
        if let Some(parameter) = reason.strip_prefix("duplicate field ") {
            return format!("The query parameter {parameter} is given twice.");
        }
        match error.path().to_string().as_str() {
            "." | "?" => format!("The query is not valid: {reason}."),
            parameter => format!("The query parameter `{parameter}` is not valid: {reason}."),
        }
    })
}

#[cfg(test)]
mod tests {
    use api::Page;

    use super::*;

    #[test]
    fn a_refusal_names_the_parameter() {
        assert_eq!(parse::<Page>("limit=7&colour=red").unwrap().limit.as_deref(), Some("7"));
        assert_eq!(parse::<Page>("limit=1&limit=2").unwrap_err(), "The query parameter `limit` is given twice.");
    }
}
