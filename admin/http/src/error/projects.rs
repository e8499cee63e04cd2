//! Errors of projects as responses.

use db::projects::CreateProjectError;
use db::projects::DeleteProjectError;
use db::projects::SetAccessError;
use db::projects::TransferError;
use db::projects::deleted::RestoreError;
use db::projects::env::SetVariableError;
use domain::limits::{ENV_TOTAL_BYTES, ENV_VARS};
use domain::size;

use super::{ApiError, Code};

impl From<SetVariableError> for ApiError {
    fn from(error: SetVariableError) -> Self {
        match error {
            SetVariableError::Gone => Self::not_found("project"),
            SetVariableError::TooMany => {
                Self::invalid(format!("This project has {ENV_VARS} variables, as many as it may; remove one first."))
            }
            SetVariableError::TooLarge => {
                let most = size(ENV_TOTAL_BYTES.unsigned_abs());
                Self::invalid(format!("`value` is too large: a project's values together may take {most}."))
            }
            SetVariableError::Db(error) => error.into(),
        }
    }
}

impl From<SetAccessError> for ApiError {
    fn from(error: SetAccessError) -> Self {
        match error {
            SetAccessError::Gone => Self::not_found("project"),
            SetAccessError::NoPassword => {
                Self::invalid("`password` is missing: this project has no password stored that could be kept.")
            }
            SetAccessError::Personal => Self::invalid(
                "`mode` can be org only for a project that belongs to an organization; this one is personal.",
            ),
            SetAccessError::Db(error) => error.into(),
        }
    }
}

impl From<RestoreError> for ApiError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Gone => Self::not_found("project"),
            RestoreError::NameTaken => Self::new(
                Code::NameTaken,
                "Another project has this name by now; restore this one under another name, by `name`.",
            ),
            RestoreError::NameKept => Self::new(
                Code::NameTaken,
                "Somebody else gave this name up less than 30 days ago; restore the project under another name, by `name`.",
            ),
            RestoreError::Suspended(suspended) => suspended.into(),
            RestoreError::Quota(reached) => reached.into(),
            RestoreError::Db(error) => error.into(),
        }
    }
}

impl From<TransferError> for ApiError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Gone => Self::not_found("project"),
            TransferError::OrgGone => Self::not_found("organization"),
            TransferError::Share => Self::invalid("A share cannot be moved; publish it as a project instead."),
            TransferError::OrgGated => Self::invalid(
                "`org` cannot be null while only the organization's members may see the site; \
                 set its access to public or password first.",
            ),
            TransferError::Suspended(suspended) => suspended.into(),
            TransferError::Quota(reached) => reached.into(),
            TransferError::Db(error) => error.into(),
        }
    }
}

impl From<CreateProjectError> for ApiError {
    fn from(error: CreateProjectError) -> Self {
        match error {
            CreateProjectError::NameTaken => Self::new(Code::NameTaken, "This name is taken; choose another."),
            CreateProjectError::NameKept => Self::new(
                Code::NameTaken,
                "Somebody else gave this name up less than 30 days ago; until then only they may take it again. Choose another.",
            ),
            CreateProjectError::OwnerGone => Self::not_found("organization"),
            CreateProjectError::Suspended(suspended) => suspended.into(),
            CreateProjectError::Quota(reached) => reached.into(),
            CreateProjectError::Db(error) => error.into(),
        }
    }
}

impl From<DeleteProjectError> for ApiError {
    fn from(error: DeleteProjectError) -> Self {
        match error {
            DeleteProjectError::Gone => Self::not_found("project"),
            DeleteProjectError::Suspended(suspended) => suspended.into(),
            DeleteProjectError::Db(error) => error.into(),
        }
    }
}
