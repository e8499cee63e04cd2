//! Middleware that prevents suspended callers from changing anything.
//!
//! The SQL of `db::projects::suspension` protects what a suspended person *owns*, whoever acts. This module restricts
//! what they *do*, in any organization: reading stays allowed, and of everything else only the operations of [`OPEN_OPERATIONS`].
//! A new operation is closed to them until it is added there.

use admin_http::error::{ApiError, Code, PossibleError};
use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use db::{audit::Actor, projects::suspension};
use domain::{OrgId, site::Suspension};

use super::{AuthOutcome, Caller, CliUser};
use crate::App;

/// The error of [`refuse_suspended`].
pub const SUSPENSION_ERRORS: &[PossibleError] = &[PossibleError::new(
    Code::Suspended,
    "the operator has suspended you, or, with a deploy token, everybody who owns the organization",
)];

/// The suspended people who may use an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenTo {
    Everybody,
    /// People who are suspended because they have not paid.
    Debtors,
}

/// The changes that suspended people may make: end their own sign-ins, tokens and memberships, stop future payments,
/// and pay what they owe. The handler of `DELETE …/members/{login}` lets them remove only themselves.
const OPEN_OPERATIONS: &[(Method, &str, OpenTo)] = &[
    (Method::DELETE, "/tokens/{id}", OpenTo::Everybody),
    (Method::DELETE, "/sessions", OpenTo::Everybody),
    (Method::DELETE, "/sessions/{id}", OpenTo::Everybody),
    (Method::DELETE, "/orgs/{name}/members/{login}", OpenTo::Everybody),
    (Method::POST, "/billing/cancel", OpenTo::Everybody),
    (Method::POST, "/orgs/{name}/billing/cancel", OpenTo::Everybody),
    (Method::PUT, "/billing/profile", OpenTo::Debtors),
    (Method::PUT, "/orgs/{name}/billing/profile", OpenTo::Debtors),
    (Method::POST, "/billing/checkout", OpenTo::Debtors),
    (Method::POST, "/orgs/{name}/billing/checkout", OpenTo::Debtors),
];

/// Returns whether the operation may fail with [`SUSPENSION_ERRORS`].
pub fn is_closed_to_suspended(method: &Method, path: &str) -> bool {
    !method.is_safe() && !is_open(method, path, None)
}

fn is_open(method: &Method, path: &str, reason: Option<Suspension>) -> bool {
    OPEN_OPERATIONS.iter().any(|(open, at, to)| {
        open == method && *at == path && (*to == OpenTo::Everybody || reason == Some(Suspension::Payment))
    })
}

/// Middleware, inside authentication, that refuses suspended callers with 409.
pub async fn refuse_suspended(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(AuthOutcome::Known(caller)) = request.extensions().get::<AuthOutcome>() else {
        return next.run(request).await;
    };
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let (method, caller) = (request.method(), caller.clone());
    if method.is_safe() || is_open(method, path, None) {
        return next.run(request).await;
    }
    let org = match &*caller {
        Caller::User(_) => None,
        Caller::Deploy(token) => Some(&token.org),
    };
    match find(&app, caller.actor(), org).await {
        Ok(Some(suspended)) if !is_open(method, path, Some(suspended.reason())) => {
            ApiError::from(suspended).into_response()
        }
        Ok(_) => next.run(request).await,
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// Refuses a suspended person, for pages of the console, which this middleware does not cover.
pub async fn require_unsuspended(app: &App, caller: &CliUser) -> Result<(), ApiError> {
    match find(app, caller.actor(), None).await? {
        Some(suspended) => Err(suspended.into()),
        None => Ok(()),
    }
}

async fn find(
    app: &App,
    actor: Actor<'_>,
    org: Option<&OrgId>,
) -> Result<Option<suspension::SuspendedError>, sqlx::Error> {
    db::in_time(suspension::find_for_actor(&app.db, actor, org)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_owe_something_may_pay_it() {
        let checkout = |reason| is_open(&Method::POST, "/billing/checkout", reason);
        assert!(checkout(Some(Suspension::Payment)));
        assert!(!checkout(Some(Suspension::Abuse)) && !checkout(Some(Suspension::Legal)) && !checkout(None));
        assert!(is_open(&Method::DELETE, "/sessions", None) && !is_open(&Method::POST, "/sessions", None));
    }

    #[test]
    fn an_operation_without_a_line_is_closed() {
        assert!(is_closed_to_suspended(&Method::PATCH, "/what/comes/next"));
        assert!(!is_closed_to_suspended(&Method::GET, "/me"));
    }
}
