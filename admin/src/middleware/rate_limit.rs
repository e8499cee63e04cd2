//! Limits routes: the control plane's per credential, those without a token per client address.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::client::ClientAddress;
use crate::{
    app::App,
    auth::Authentication,
    error::{Code, PossibleError},
    rates::{self, Bucket, RateLimits},
};

/// The errors of [`per_client`] and [`per_token`].
pub const RATE_LIMIT_ERRORS: &[PossibleError] =
    &[PossibleError::new(Code::RateLimitExceeded, "the rate limit is used up; `Retry-After` says how long to wait")];

/// Middleware: limits a route per client address.
pub async fn per_client(State((app, bucket)): State<(App, Bucket)>, request: Request, next: Next) -> Response {
    let client = request.extensions().get::<ClientAddress>().map(|&ClientAddress(address)| rates::client(address));
    limited(&app.rate_limits, bucket, &client.unwrap_or_default(), request, next).await
}

/// Middleware: limits the control plane per credential. Requests without a working one end in 401 and are not counted.
pub async fn per_token(State(app): State<App>, request: Request, next: Next) -> Response {
    match request.extensions().get::<Authentication>() {
        Some(Authentication::Known(caller)) => {
            let credential = caller.credential().to_owned();
            limited(&app.rate_limits, Bucket::Api, &credential, request, next).await
        }
        _ => next.run(request).await,
    }
}

async fn limited(rates: &RateLimits, bucket: Bucket, key: &str, request: Request, next: Next) -> Response {
    let standing = rates.count(bucket, key).await;
    let mut response = match standing.check() {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    standing.write(response.headers_mut());
    response
}
