//! From what went wrong to what the client is told: the only file that knows the control plane's statuses.
//!
//! A handler says `Err(ApiError::new(Code::NameTaken, "…"))`, or lets `?` turn an error into one. What the client must
//! not see travels as the private source; it is logged once, here, inside the request's span.

use std::{borrow::Cow, time::Duration};

use api::error::{ErrorBody, ErrorEnvelope};
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// The stable codes of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A parameter or body breaks a rule.
    InvalidRequest,
    /// The tarball cannot be published.
    InvalidArchive,
    /// Device flow: the person has not answered yet.
    AuthorizationPending,
    /// Device flow: the code is used up or too old.
    ExpiredToken,
    /// No token, or one that does not work here.
    Unauthorized,
    /// Device flow: the person said no.
    AccessDenied,
    /// The role does not suffice.
    Forbidden,
    /// The plan allows no more.
    PlanLimitReached,
    /// Nothing there, or nothing for this caller.
    NotFound,
    /// The path does not have this method.
    MethodNotAllowed,
    /// The name is somebody's.
    NameTaken,
    /// The domain is attached to another project.
    DomainTaken,
    /// The installation belongs to another organization.
    SharedElsewhere,
    /// Only live and superseded deployments can be activated.
    NotActivatable,
    /// The live deployment cannot be deleted.
    DeploymentLive,
    /// An organization with projects cannot be deleted.
    OrgNotEmpty,
    /// An organization cannot be without an owner.
    LastOwner,
    /// The `Idempotency-Key` belongs to another request.
    IdempotencyConflict,
    /// The request's body did not arrive in time.
    RequestTimeout,
    /// More than is accepted.
    PayloadTooLarge,
    /// Not of the kind that is accepted.
    UnsupportedMediaType,
    /// Device flow: polled before the interval was over.
    SlowDown,
    /// Too many requests.
    RateLimitExceeded,
    /// More is going on than this program takes on at once.
    Busy,
    /// Our fault.
    Internal,
    /// The code host did not answer, or not sensibly.
    CodeHostError,
}

impl Code {
    /// The code's status.
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest | Self::InvalidArchive | Self::AuthorizationPending | Self::ExpiredToken => {
                StatusCode::BAD_REQUEST
            }
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::AccessDenied | Self::Forbidden | Self::PlanLimitReached => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NameTaken
            | Self::DomainTaken
            | Self::SharedElsewhere
            | Self::NotActivatable
            | Self::DeploymentLive
            | Self::OrgNotEmpty
            | Self::LastOwner
            | Self::IdempotencyConflict => StatusCode::CONFLICT,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::SlowDown | Self::RateLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::CodeHostError => StatusCode::BAD_GATEWAY,
        }
    }

    /// The code on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidArchive => "invalid_archive",
            Self::AuthorizationPending => "authorization_pending",
            Self::ExpiredToken => "expired_token",
            Self::Unauthorized => "unauthorized",
            Self::AccessDenied => "access_denied",
            Self::Forbidden => "forbidden",
            Self::PlanLimitReached => "plan_limit_reached",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::NameTaken => "name_taken",
            Self::DomainTaken => "domain_taken",
            Self::SharedElsewhere => "shared_elsewhere",
            Self::NotActivatable => "not_activatable",
            Self::DeploymentLive => "deployment_live",
            Self::OrgNotEmpty => "org_not_empty",
            Self::LastOwner => "last_owner",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::RequestTimeout => "request_timeout",
            Self::PayloadTooLarge => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::SlowDown => "slow_down",
            Self::RateLimitExceeded => "rate_limit_exceeded",
            Self::Busy => "busy",
            Self::Internal => "internal",
            Self::CodeHostError => "code_host_error",
        }
    }
}

/// An answer that is an error.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    message: Cow<'static, str>,
    retry_after: Option<Duration>,
    source: Option<anyhow::Error>,
}

impl ApiError {
    /// An error of this kind; `message` says what is wrong and what to do about it.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after: None, source: None }
    }

    /// A parameter or body breaks a rule.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }

    /// There is no such thing, or none that this caller may know of.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("There is no such {what}, or it is not yours."))
    }

    /// Our fault; `source` goes to the log, never to the client.
    pub fn internal(source: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Internal, "Something went wrong on our side. Please try again; the request id finds the cause.")
            .caused_by(source)
    }

    /// Keeps the cause for the log.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// What the client is told.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The kind of error.
    pub fn code(&self) -> Code {
        self.code
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        telemetry::metrics::postgres_failed("api");
        Self::internal(error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Some(source) = &self.source {
            tracing::error!(code = self.code.as_str(), "{source:#}");
        }
        let error = ErrorBody { code: self.code.as_str().to_owned(), message: self.message.into_owned() };
        let mut response = (self.code.status(), Json(ErrorEnvelope { error })).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, whole_seconds(wait).into());
        }
        response
    }
}

/// Seconds, rounded up: a client that waits so long does not come too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_never_too_early() {
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(7)), 7);
        assert_eq!(whole_seconds(Duration::from_millis(7_001)), 8);
    }
}
