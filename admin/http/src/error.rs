//! Errors as responses: [`Code`] maps each kind to its status, and [`ApiError`] carries the message for the client.
//!
//! A handler returns `Err(ApiError::new(Code::NameTaken, "…"))`, or lets `?` convert a domain error. Details that the
//! client must not see are in the private source, which is logged once, here, inside the request's span.

mod deployments;
mod domains;
mod invites;
mod orgs;
mod permits;
mod projects;
mod repositories;
mod tokens;

use std::{borrow::Cow, time::Duration};

use api::error::{ErrorBody, ErrorEnvelope};
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use db::projects::suspension::SuspendedError;

/// The `Retry-After` while the database or the store does not answer.
const AWAY_RETRY: Duration = Duration::from_secs(5);

/// Defines [`Code`]: each code's meaning, which the OpenAPI document repeats, its status and its wire name.
macro_rules! codes {
    ($( #[doc = $meaning:literal] $code:ident = $status:ident, $text:literal; )*) => {
        /// The stable codes of the control plane.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $( #[doc = $meaning] $code, )*
        }

        impl Code {
            /// All codes, ordered by status.
            pub const ALL: &[Self] = &[$( Self::$code, )*];

            /// Returns the code's status.
            pub fn status(self) -> StatusCode {
                match self {
                    $( Self::$code => StatusCode::$status, )*
                }
            }

            /// Returns the code's name on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$code => $text, )*
                }
            }

            /// Returns a sentence about the code, for the OpenAPI document.
            pub fn meaning(self) -> &'static str {
                match self {
                    $( Self::$code => $meaning.trim_ascii(), )*
                }
            }
        }
    };
}

codes! {
    /// A parameter, a header or the body breaks a rule; the message names it.
    InvalidRequest = BAD_REQUEST, "invalid_request";
    /// The archive cannot be published; the message names the entry and the reason.
    InvalidArchive = BAD_REQUEST, "invalid_archive";
    /// The EU's VAT registry does not know the VAT number.
    VatNumberNotFound = BAD_REQUEST, "vat_number_not_found";
    /// The person has not answered the device flow yet; keep polling.
    AuthorizationPending = BAD_REQUEST, "authorization_pending";
    /// The device code has expired or was used; start a new flow.
    ExpiredToken = BAD_REQUEST, "expired_token";
    /// The token is missing, unknown, revoked or of a kind that is not accepted here.
    Unauthorized = UNAUTHORIZED, "unauthorized";
    /// The person denied the sign-in.
    AccessDenied = FORBIDDEN, "access_denied";
    /// The caller's role in the organization does not allow this.
    Forbidden = FORBIDDEN, "forbidden";
    /// The plan, or a limit on the organization, does not allow more.
    PlanLimitReached = FORBIDDEN, "plan_limit_reached";
    /// The resource does not exist, or is hidden from the caller.
    NotFound = NOT_FOUND, "not_found";
    /// The path exists, but not with this method; the `Allow` header lists the supported methods.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed";
    /// The request's body did not arrive in time.
    RequestTimeout = REQUEST_TIMEOUT, "request_timeout";
    /// The name is taken, or was given up by somebody else less than 30 days ago.
    NameTaken = CONFLICT, "name_taken";
    /// The domain is attached to another project.
    DomainTaken = CONFLICT, "domain_taken";
    /// The installation is shared with another organization.
    SharedElsewhere = CONFLICT, "shared_elsewhere";
    /// The operator has suspended the site or the account, so it cannot be changed.
    Suspended = CONFLICT, "suspended";
    /// The deployment is neither live nor superseded.
    NotActivatable = CONFLICT, "not_activatable";
    /// The deployment is live and cannot be deleted.
    DeploymentLive = CONFLICT, "deployment_live";
    /// The deployment has no files: it is being uploaded, or its upload failed.
    NoFiles = CONFLICT, "no_files";
    /// The organization still has projects.
    OrgNotEmpty = CONFLICT, "org_not_empty";
    /// The organization has a subscription.
    SubscriptionActive = CONFLICT, "subscription_active";
    /// The organization would be left without an owner.
    LastOwner = CONFLICT, "last_owner";
    /// The `Idempotency-Key` belongs to a different request, or to one that is still in progress.
    IdempotencyConflict = CONFLICT, "idempotency_conflict";
    /// The body, or its unpacked content, is larger than the limit.
    PayloadTooLarge = PAYLOAD_TOO_LARGE, "payload_too_large";
    /// The body's type is not accepted.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type";
    /// The client polls faster than the device flow's interval; `Retry-After` gives the new interval.
    SlowDown = TOO_MANY_REQUESTS, "slow_down";
    /// The rate limit is reached; `Retry-After` says when it resets.
    RateLimitExceeded = TOO_MANY_REQUESTS, "rate_limit_exceeded";
    /// The service failed; its log has the cause under the request's `X-Request-Id`.
    Internal = INTERNAL_SERVER_ERROR, "internal";
    /// The code host is unreachable, refuses the request, or requires the person to sign in there again.
    CodeHostError = BAD_GATEWAY, "code_host_error";
    /// The statistics cannot be read at the moment.
    CdnError = BAD_GATEWAY, "cdn_error";
    /// The edge that received the request gets no response from the control plane.
    BadGateway = BAD_GATEWAY, "bad_gateway";
    /// The AI gateway is unreachable, or does not answer in time.
    GatewayUnavailable = BAD_GATEWAY, "gateway_unavailable";
    /// Visits are not counted on this platform.
    StatsUnavailable = SERVICE_UNAVAILABLE, "stats_unavailable";
    /// Payments are not available on this platform, or not at the moment.
    BillingUnavailable = SERVICE_UNAVAILABLE, "billing_unavailable";
    /// The EU's VAT registry does not answer.
    VatRegistryUnavailable = SERVICE_UNAVAILABLE, "vat_registry_unavailable";
    /// The deployment's files cannot be read: the store does not answer, or has lost or damaged them.
    FilesUnavailable = SERVICE_UNAVAILABLE, "files_unavailable";
    /// The server is at its limit for this work, or its database or store does not answer; `Retry-After` says when to retry.
    Busy = SERVICE_UNAVAILABLE, "busy";
}

/// An error that a part of the control plane may return. The OpenAPI document lists it where the part is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleError {
    /// The error's code.
    pub code: Code,
    /// The condition, as a clause in lower case without a full stop.
    pub when: &'static str,
}

impl PossibleError {
    /// Declares that `code` is returned under the condition `when`.
    pub const fn new(code: Code, when: &'static str) -> Self {
        Self { code, when }
    }
}

/// An error that becomes a response.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    message: Cow<'static, str>,
    retry_after: Option<Duration>,
    is_of_this_admin: bool,
    source: Option<anyhow::Error>,
}

impl ApiError {
    /// Creates an error. `message` tells the client what is wrong and how to fix it.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after: None, is_of_this_admin: false, source: None }
    }

    /// Creates an error for a parameter or body that breaks a rule.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }

    /// Creates an error for a thing that does not exist, or is hidden from this caller.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("There is no such {what}, or it is not yours."))
    }

    /// Creates an error for an internal failure. `source` is logged and never sent to the client.
    pub fn internal(source: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Internal, "Something went wrong on our side. Please try again; the request id finds the cause.")
            .caused_by(source)
    }

    /// Creates an error for a database that does not answer.
    pub fn database_unavailable() -> Self {
        Self::new(Code::Busy, "The database does not answer at the moment; please try again.").retry_after(AWAY_RETRY)
    }

    /// Creates an error for a store that does not answer.
    pub fn store_unavailable() -> Self {
        let message =
            "The store of deployments does not answer at the moment, so nothing was published; please try again.";
        Self::new(Code::Busy, message).retry_after(AWAY_RETRY)
    }

    /// Marks a refusal before any work that another admin may not repeat, so that an edge tries another one.
    #[must_use]
    pub fn retry_elsewhere(mut self) -> Self {
        self.is_of_this_admin = true;
        self
    }

    /// Adds the cause, for the log.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Returns the message for the client.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the error's code.
    pub fn code(&self) -> Code {
        self.code
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        telemetry::metrics::postgres_failed("api");
        if db::is_unavailable(&error) { Self::database_unavailable().caused_by(error) } else { Self::internal(error) }
    }
}

impl From<SuspendedError> for ApiError {
    fn from(suspended: SuspendedError) -> Self {
        let message = match suspended {
            SuspendedError::Site(reason) => format!(
                "The operator of this service has suspended this site ({}). Until that ends it cannot be published to, \
                 moved or deleted, and it keeps its domains; ask the operator.",
                reason.as_str()
            ),
            SuspendedError::Account(reason) => format!(
                "The operator of this service has suspended the account ({}). Until that ends nothing of it can be \
                 published, moved or deleted, and a suspended person changes nothing in any organization; you can still sign \
                 in, read, export and pay. Ask the operator.",
                reason.as_str()
            ),
            SuspendedError::Owners(reason) => format!(
                "The operator of this service has suspended everybody who owns the organization ({}). Until that ends its \
                 deploy tokens do not work, and pushes to its repositories are not deployed. Ask the operator.",
                reason.as_str()
            ),
        };
        Self::new(Code::Suspended, message)
    }
}

/// Marks a response that another admin might not give: see [`ApiError::retry_elsewhere`].
#[derive(Debug, Clone, Copy)]
pub struct RetryElsewhere;

/// Marks a response that may differ when the same request is repeated: its precondition may be met by then.
#[derive(Debug, Clone, Copy)]
pub struct TransientRefusal;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Some(source) = &self.source {
            tracing::error!(code = self.code.as_str(), "{source:#}");
        }
        let error = ErrorBody { code: self.code.as_str().to_owned(), message: self.message.into_owned() };
        let mut response = (self.code.status(), Json(ErrorEnvelope { error })).into_response();
        // The error tells the caller to set a record and ask again, or the suspension may end.
        if matches!(self.code, Code::DomainTaken | Code::Suspended) {
            response.extensions_mut().insert(TransientRefusal);
        }
        if self.is_of_this_admin {
            response.extensions_mut().insert(RetryElsewhere);
        }
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

/// Rounds up to seconds, so that a client that waits exactly that long does not come too early.
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
