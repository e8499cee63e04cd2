//! Errors of repositories as responses.

use db::code_host::repo_links::LinkError;

use super::ApiError;

impl From<LinkError> for ApiError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Gone => Self::not_found("project"),
            LinkError::NotShared => Self::not_found("installation"),
            LinkError::Db(error) => error.into(),
        }
    }
}
