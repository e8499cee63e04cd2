//! Errors of permits as responses.

use db::permits::PermitError;
use db::permits::ResourceKind;
use domain::role::Role;

use super::{ApiError, Code};

impl From<PermitError> for ApiError {
    fn from(error: PermitError) -> Self {
        match error {
            PermitError::NotFound(ResourceKind::Project) => Self::not_found("project"),
            PermitError::NotFound(ResourceKind::Org) => Self::not_found("organization"),
            PermitError::Role(ResourceKind::Project, _) => {
                Self::new(Code::Forbidden, "Your role in the organization does not allow this; ask one of its admins.")
            }
            PermitError::Role(ResourceKind::Org, needed) => {
                let who = if needed == Role::Owner { "an owner" } else { "an owner or admin" };
                Self::new(Code::Forbidden, format!("Only {who} of the organization may do this; ask one of them."))
            }
            PermitError::Db(error) => error.into(),
        }
    }
}
