//! Rate limits. Control plane routes are limited per credential and account, and per client address for requests whose
//! credential is not accepted; routes without a token per client address.

use admin_http::error::{Code, PossibleError};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use sha2::{Digest as _, Sha256};

use super::client::ClientAddress;
use crate::{
    App,
    auth::{self, AuthOutcome},
    rates::{self, Bucket, ClientKey, LimitState, PersonRate},
};

/// The errors of [`per_client`], [`per_token`] and [`unauthorized`].
pub const RATE_LIMIT_ERRORS: &[PossibleError] =
    &[PossibleError::new(Code::RateLimitExceeded, "the rate limit is used up; `Retry-After` says how long to wait")];

/// Marks the response to an authenticated request, whose number is already limited by the account's rate.
#[derive(Debug, Clone, Copy)]
pub struct AuthenticatedRequest;

/// Middleware that limits a route per client address.
pub async fn per_client(State((app, bucket)): State<(App, Bucket)>, request: Request, next: Next) -> Response {
    let standing = app.rate_limits.count_client(bucket, &client_key(&request)).await;
    run_with_headers(standing, request, next).await
}

/// Middleware, outside authentication, that limits a client address's requests that end in 401, before they cost a
/// lookup. A credential that was accepted recently is not counted, so that people who share an address with somebody
/// who sends made-up tokens are not affected.
pub async fn unauthorized(State(app): State<App>, request: Request, next: Next) -> Response {
    let rates = &app.rate_limits;
    let credential = auth::presented_secret(request.headers()).map(|secret| Sha256::digest(secret).into());
    let is_proven = credential.is_some_and(|credential| rates.is_recently_accepted(&credential));
    let client = client_key(&request);
    // Count first and undo if the credential is accepted, so that concurrent requests cannot all slip through.
    if !is_proven && let Err(refusal) = rates.count_client(Bucket::Unauthorized, &client).await.check() {
        return refusal.into_response();
    }
    let response = next.run(request).await;
    let is_refused = response.status() == StatusCode::UNAUTHORIZED;
    match credential {
        Some(credential) if is_refused => rates.forget_accepted(&credential),
        Some(credential) if !response.status().is_server_error() => rates.remember_accepted(credential),
        _ => {}
    }
    if !is_proven && !is_refused {
        rates.uncount_client(Bucket::Unauthorized, &client).await;
    }
    response
}

/// Middleware that limits the control plane per credential, and per account over all of its credentials. Requests
/// without an accepted credential end in 401 and are counted by [`unauthorized`].
pub async fn per_token(State(app): State<App>, request: Request, next: Next) -> Response {
    match request.extensions().get::<AuthOutcome>() {
        Some(AuthOutcome::Known(caller)) => {
            let rates = &app.rate_limits;
            let mut standing = rates.count(Bucket::Api, caller.credential()).await;
            // Refused requests do not count against the account: an overused credential would block the others.
            if standing.check().is_ok() {
                let payer = caller.counted_for();
                let mut of_account = rates.count_for(PersonRate::Api, &payer).await;
                if of_account.check().is_ok() && !request.method().is_safe() {
                    let changes = rates.count_for(PersonRate::Change, &payer).await;
                    if changes.check().is_err() {
                        of_account = changes;
                    }
                }
                // The headers report the credential's limit, unless the account's is reached.
                if of_account.check().is_err() {
                    standing = of_account;
                }
            }
            let mut response = run_with_headers(standing, request, next).await;
            response.extensions_mut().insert(AuthenticatedRequest);
            response
        }
        _ => next.run(request).await,
    }
}

fn client_key(request: &Request) -> ClientKey {
    let address = request.extensions().get::<ClientAddress>();
    address.map(|&ClientAddress(address)| rates::client(address)).unwrap_or_default()
}

async fn run_with_headers(standing: LimitState, request: Request, next: Next) -> Response {
    let mut response = match standing.check() {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    standing.write(response.headers_mut());
    response
}
