//! Errors of invites as responses.

use db::orgs::invites::AcceptInviteError;
use db::orgs::invites::CreateInviteError;

use super::{ApiError, Code};

impl From<AcceptInviteError> for ApiError {
    fn from(error: AcceptInviteError) -> Self {
        match error {
            AcceptInviteError::NotFound => Self::new(
                Code::NotFound,
                "There is no such invite: it was accepted or revoked, or has expired. Ask for a new one.",
            ),
            AcceptInviteError::Full => Self::new(
                Code::PlanLimitReached,
                "The organization has as many members as it may have; ask its admins to make room.",
            ),
            AcceptInviteError::Quota(reached) => reached.into(),
            AcceptInviteError::Db(error) => error.into(),
        }
    }
}

impl From<CreateInviteError> for ApiError {
    fn from(error: CreateInviteError) -> Self {
        match error {
            CreateInviteError::TooMany => Self::new(
                Code::PlanLimitReached,
                "Too many invites of this organization wait for an answer; revoke some first.",
            ),
            CreateInviteError::Quota(reached) => reached.into(),
            CreateInviteError::Db(error) => error.into(),
        }
    }
}
