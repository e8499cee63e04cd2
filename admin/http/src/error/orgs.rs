//! Errors of orgs as responses.

use db::code_host::sharing::ShareError;
use db::code_host::sharing::UnshareError;
use db::orgs::CreateOrgError;
use db::orgs::DeleteOrgError;
use db::orgs::members::ChangeMemberError;
use db::orgs::payer::TakeOverError;

use super::{ApiError, Code};

impl From<ChangeMemberError> for ApiError {
    fn from(error: ChangeMemberError) -> Self {
        match error {
            ChangeMemberError::LastOwner => Self::new(
                Code::LastOwner,
                "This is the organization's only owner; make somebody else an owner first, or delete the organization.",
            ),
            ChangeMemberError::Db(error) => error.into(),
        }
    }
}

impl From<TakeOverError> for ApiError {
    fn from(error: TakeOverError) -> Self {
        match error {
            TakeOverError::Suspended(suspended) => suspended.into(),
            TakeOverError::Quota(reached) => reached.into(),
            TakeOverError::Db(error) => error.into(),
        }
    }
}

impl From<CreateOrgError> for ApiError {
    fn from(error: CreateOrgError) -> Self {
        match error {
            CreateOrgError::NameTaken => Self::new(Code::NameTaken, "This name is taken; choose another."),
            CreateOrgError::NameKept => Self::new(
                Code::NameTaken,
                "Others gave this name up less than 30 days ago; until then only they may take it again. Choose another.",
            ),
            CreateOrgError::Quota(reached) => reached.into(),
            CreateOrgError::TooManyDeleted => Self::new(
                Code::PlanLimitReached,
                "You have deleted as many organizations this month as your plan allows, and they used what it gives by the month; \
                 make the next one when the month is over, or choose a larger plan.",
            ),
            CreateOrgError::Db(error) => error.into(),
        }
    }
}

impl From<DeleteOrgError> for ApiError {
    fn from(error: DeleteOrgError) -> Self {
        match error {
            DeleteOrgError::NotEmpty => {
                Self::new(Code::OrgNotEmpty, "The organization still has projects; move or delete them first.")
            }
            DeleteOrgError::Suspended(suspended) => suspended.into(),
            DeleteOrgError::Subscribed => Self::new(
                Code::SubscriptionActive,
                "The organization still has a subscription; cancel it, and delete the organization once it has ended.",
            ),
            DeleteOrgError::Db(error) => error.into(),
        }
    }
}

impl From<ShareError> for ApiError {
    fn from(error: ShareError) -> Self {
        match error {
            ShareError::Elsewhere => Self::new(
                Code::SharedElsewhere,
                "This installation is shared with another organization; it has to be unshared there first.",
            ),
            ShareError::Gone => Self::not_found("organization"),
            ShareError::Db(error) => error.into(),
        }
    }
}

impl From<UnshareError> for ApiError {
    fn from(error: UnshareError) -> Self {
        match error {
            UnshareError::NotFound => Self::not_found("installation"),
            UnshareError::Role => Self::new(
                Code::Forbidden,
                "Only who shared the installation, and the organization's admins, may unshare it; ask one of them.",
            ),
            UnshareError::Db(error) => error.into(),
        }
    }
}
