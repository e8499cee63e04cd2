//! A client of certificate authorities that speak ACME (RFC 8555), with renewal information (RFC 9773) and profiles.
//!
//! This module sends requests to an authority and interprets the responses. When to call it, and what to store in
//! between, is up to the caller. Every call is one exchange or a few, and none waits for the authority's work, so that
//! an order can be resumed after a crash at any step. Start with [`AcmeAuthority`].

mod account;
mod authority;
mod http;
mod key_change;
mod order;
mod problem;
mod renewal;
mod request;

use std::pin::Pin;

pub use self::{
    account::{AuthorityAccount, RevokeReason},
    authority::{AcmeAuthority, RegisteredAccount},
    key_change::with_next_key,
    order::{Authorization, OfferedChallenge, OrderProgress},
    problem::{AcmeError, AcmeProblem, ProblemKind},
    renewal::RenewalWindow,
    request::{RequestError, key_and_request},
};

/// The number of attempts of an exchange whose nonce is refused. instant-acme tries three times in each.
const NONCE_ATTEMPTS: usize = 12;

/// One exchange or a few in progress. Boxed, because callers spawn them and must know that they are `Send`.
type BoxedExchange<'a, T> = Pin<Box<dyn Future<Output = Result<T, AcmeError>> + Send + 'a>>;

/// Repeats an exchange while the authority refuses its nonce (RFC 8555, 6.5), in which case it has done nothing.
async fn with_fresh_nonces<'a, T>(exchange: impl Fn() -> BoxedExchange<'a, T> + Send) -> Result<T, AcmeError> {
    for _ in 1..NONCE_ATTEMPTS {
        match exchange().await {
            Err(AcmeError::Refused(problem)) if problem.kind == ProblemKind::BadNonce => {}
            outcome => return outcome,
        }
    }
    exchange().await
}
