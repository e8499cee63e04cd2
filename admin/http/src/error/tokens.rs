//! Errors of tokens as responses.

use db::orgs::tokens::CreateOrgTokenError;
use db::sign_in::tokens::CreateUserTokenError;
use db::sign_in::tokens::LimitError;
use domain::limits::USER_TOKENS;

use super::{ApiError, Code};

impl From<CreateUserTokenError> for ApiError {
    fn from(error: CreateUserTokenError) -> Self {
        match error {
            CreateUserTokenError::TooMany => Self::new(
                Code::PlanLimitReached,
                format!(
                    "You have {USER_TOKENS} working tokens, and no more are given out; revoke some that are no longer used."
                ),
            ),
            CreateUserTokenError::Db(error) => error.into(),
        }
    }
}

impl From<LimitError> for ApiError {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::NotFound => Self::not_found("token"),
            LimitError::NotAKey(kind) => Self::invalid(format!(
                "`monthly_limit_cents`, `gateway_body_bytes` and `gateway_max_tokens` are for tokens of kind `ai`: a `{}` \
                 token does nothing at the AI gateway.",
                kind.as_str()
            )),
            LimitError::Db(error) => error.into(),
        }
    }
}

impl From<CreateOrgTokenError> for ApiError {
    fn from(error: CreateOrgTokenError) -> Self {
        match error {
            CreateOrgTokenError::TooMany => Self::new(
                Code::PlanLimitReached,
                "The organization has as many tokens as it may have; revoke some that are no longer used.",
            ),
            CreateOrgTokenError::Db(error) => error.into(),
        }
    }
}
