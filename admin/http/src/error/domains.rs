//! Errors of domains as responses.

use db::projects::domains::AttachError;
use db::projects::domains::DetachError;

use super::{ApiError, Code};

impl From<AttachError> for ApiError {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Gone => Self::not_found("project"),
            AttachError::Share => {
                Self::invalid("A share cannot have a domain of its own; publish it as a project instead.")
            }
            AttachError::Taken | AttachError::Kept => {
                Self::new(Code::DomainTaken, "This domain is attached to another project; detach it there first.")
            }
            AttachError::Suspended(suspended) => suspended.into(),
            AttachError::Quota(reached) => reached.into(),
            AttachError::Db(error) => error.into(),
        }
    }
}

impl From<DetachError> for ApiError {
    fn from(error: DetachError) -> Self {
        match error {
            DetachError::NotFound => Self::not_found("domain"),
            DetachError::Suspended(suspended) => suspended.into(),
            DetachError::Db(error) => error.into(),
        }
    }
}
