//! Errors as answers: [`Code`] maps each kind to its status, [`ApiError`] carries what the client is told.
//!
//! A handler returns `Err(ApiError::new(Code::NameTaken, "…"))`, or lets `?` convert a domain error. What the client
//! must not see travels as the private source, which is logged once, here, inside the request's span.

use std::{borrow::Cow, time::Duration};

use api::error::{ErrorBody, ErrorEnvelope};
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use db::projects::suspension::Suspended;

/// When to try again while the database or the store does not answer.
const AWAY_RETRY: Duration = Duration::from_secs(5);

/// Defines [`Code`]: of each code its meaning, which the OpenAPI document repeats, its status and its name on the wire.
macro_rules! codes {
    ($( #[doc = $meaning:literal] $code:ident = $status:ident, $text:literal; )*) => {
        /// The stable codes of the control plane.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $( #[doc = $meaning] $code, )*
        }

        impl Code {
            /// Every code, in the order of their statuses.
            pub const ALL: &[Self] = &[$( Self::$code, )*];

            /// The code's status.
            pub fn status(self) -> StatusCode {
                match self {
                    $( Self::$code => StatusCode::$status, )*
                }
            }

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$code => $text, )*
                }
            }

            /// One sentence about the code, for the OpenAPI document.
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
    /// Nobody has the VAT number, says the EU's VAT registry.
    VatNumberNotFound = BAD_REQUEST, "vat_number_not_found";
    /// The person has not answered the device flow yet; keep polling.
    AuthorizationPending = BAD_REQUEST, "authorization_pending";
    /// The device code has expired or was used; start a new flow.
    ExpiredToken = BAD_REQUEST, "expired_token";
    /// The token is missing, unknown, revoked or of a kind that does not work here.
    Unauthorized = UNAUTHORIZED, "unauthorized";
    /// The person denied the sign-in.
    AccessDenied = FORBIDDEN, "access_denied";
    /// The caller's role in the organization does not allow this.
    Forbidden = FORBIDDEN, "forbidden";
    /// The plan, or a limit on the organization, allows no more.
    PlanLimitReached = FORBIDDEN, "plan_limit_reached";
    /// The resource does not exist, or the caller may not know of it.
    NotFound = NOT_FOUND, "not_found";
    /// The path exists, but not with this method; the `Allow` header lists the methods that it has.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed";
    /// The request's body did not arrive in time.
    RequestTimeout = REQUEST_TIMEOUT, "request_timeout";
    /// The name belongs to somebody already, or was given up less than 30 days ago by somebody else.
    NameTaken = CONFLICT, "name_taken";
    /// The domain is attached to another project.
    DomainTaken = CONFLICT, "domain_taken";
    /// The installation is shared with another organization.
    SharedElsewhere = CONFLICT, "shared_elsewhere";
    /// The operator has suspended the site, or the account, so that it stays as it is.
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
    /// The `Idempotency-Key` belongs to another request, or to one that is still being worked on.
    IdempotencyConflict = CONFLICT, "idempotency_conflict";
    /// The body, or what it unpacks to, is larger than the limit.
    PayloadTooLarge = PAYLOAD_TOO_LARGE, "payload_too_large";
    /// The body is not of a type that is accepted.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type";
    /// The client polls faster than the device flow's interval; `Retry-After` gives the new interval.
    SlowDown = TOO_MANY_REQUESTS, "slow_down";
    /// The rate limit is used up; `Retry-After` says when it is restored.
    RateLimitExceeded = TOO_MANY_REQUESTS, "rate_limit_exceeded";
    /// The service failed; its log holds the cause under the request's `X-Request-Id`.
    Internal = INTERNAL_SERVER_ERROR, "internal";
    /// The code host cannot be reached, refuses, or needs the person to sign in there again.
    CodeHostError = BAD_GATEWAY, "code_host_error";
    /// The statistics cannot be read at the moment.
    CdnError = BAD_GATEWAY, "cdn_error";
    /// The control plane does not answer the edge that the request came through.
    BadGateway = BAD_GATEWAY, "bad_gateway";
    /// The AI gateway cannot be reached, or does not answer in time.
    GatewayUnavailable = BAD_GATEWAY, "gateway_unavailable";
    /// The edges do not count visits here.
    StatsUnavailable = SERVICE_UNAVAILABLE, "stats_unavailable";
    /// No money can be moved here, or not at the moment.
    BillingUnavailable = SERVICE_UNAVAILABLE, "billing_unavailable";
    /// The EU's VAT registry does not answer.
    VatRegistryUnavailable = SERVICE_UNAVAILABLE, "vat_registry_unavailable";
    /// The deployment's files cannot be read: the store does not answer, or has lost or damaged them.
    FilesUnavailable = SERVICE_UNAVAILABLE, "files_unavailable";
    /// The server does as much of this as it can at a time, or its database or its store does not answer; try again when `Retry-After` says.
    Busy = SERVICE_UNAVAILABLE, "busy";
}

/// An error that a part of the control plane can answer with. Stands beside that part; the OpenAPI document lists it at
/// every operation which uses the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleError {
    /// The error's code.
    pub code: Code,
    /// The condition, as a clause in lower case without a full stop.
    pub when: &'static str,
}

impl PossibleError {
    /// `code`, answered under the condition `when`.
    pub const fn new(code: Code, when: &'static str) -> Self {
        Self { code, when }
    }
}

/// An error that becomes an answer.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    message: Cow<'static, str>,
    retry_after: Option<Duration>,
    is_of_this_admin: bool,
    source: Option<anyhow::Error>,
}

impl ApiError {
    /// Makes an error. `message` tells the client what is wrong and what to do about it.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), retry_after: None, is_of_this_admin: false, source: None }
    }

    /// Makes an error for a parameter or body that breaks a rule.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidRequest, message)
    }

    /// Makes an error for a thing that does not exist, or that this caller may not know of.
    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("There is no such {what}, or it is not yours."))
    }

    /// Makes an error for a fault of ours. `source` goes to the log, never to the client.
    pub fn internal(source: impl Into<anyhow::Error>) -> Self {
        Self::new(Code::Internal, "Something went wrong on our side. Please try again; the request id finds the cause.")
            .caused_by(source)
    }

    /// Makes an error for a database that does not answer.
    pub fn no_database() -> Self {
        Self::new(Code::Busy, "The database does not answer at the moment; please try again.").retry_after(AWAY_RETRY)
    }

    /// Makes an error for a store of deployments that does not answer.
    pub fn no_store() -> Self {
        let message =
            "The store of deployments does not answer at the moment, so nothing was published; please try again.";
        Self::new(Code::Busy, message).retry_after(AWAY_RETRY)
    }

    /// Marks a refusal that came before any work and that another admin may not repeat: an edge then asks one that has room.
    #[must_use]
    pub fn of_this_admin(mut self) -> Self {
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

    /// The sentence that the client is told.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The error's code.
    pub fn code(&self) -> Code {
        self.code
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        telemetry::metrics::postgres_failed("api");
        if db::is_unavailable(&error) { Self::no_database().caused_by(error) } else { Self::internal(error) }
    }
}

impl From<Suspended> for ApiError {
    fn from(suspended: Suspended) -> Self {
        let message = match suspended {
            Suspended::Site(reason) => format!(
                "The operator of this service has suspended this site ({}). Until that ends it cannot be published to, \
                 moved or deleted, and it keeps its domains; ask the operator.",
                reason.as_str()
            ),
            Suspended::Account(reason) => format!(
                "The operator of this service has suspended the account ({}). Until that ends nothing of it can be \
                 published, moved or deleted, and a suspended person changes nothing in any organization; you can still sign \
                 in, read, export and pay. Ask the operator.",
                reason.as_str()
            ),
            Suspended::Owners(reason) => format!(
                "The operator of this service has suspended everybody who owns the organization ({}). Until that ends its \
                 deploy tokens do not work, and pushes to its repositories are not deployed. Ask the operator.",
                reason.as_str()
            ),
        };
        Self::new(Code::Suspended, message)
    }
}

/// Marks an answer that another admin may not give: see [`ApiError::of_this_admin`].
#[derive(Debug, Clone, Copy)]
pub struct OfThisAdmin;

/// Marks an answer that the same request may get another one after: what it asks for may be done meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Passing;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Some(source) = &self.source {
            tracing::error!(code = self.code.as_str(), "{source:#}");
        }
        let error = ErrorBody { code: self.code.as_str().to_owned(), message: self.message.into_owned() };
        let mut response = (self.code.status(), Json(ErrorEnvelope { error })).into_response();
        // It says which record to set, and to ask again then; and a suspension ends.
        if matches!(self.code, Code::DomainTaken | Code::Suspended) {
            response.extensions_mut().insert(Passing);
        }
        if self.is_of_this_admin {
            response.extensions_mut().insert(OfThisAdmin);
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

/// Rounds up to seconds, so that a client that waits so long does not come too early.
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
