//! The client of certificate authorities that speak ACME (RFC 8555), with renewal information (RFC 9773) and profiles.
//!
//! Here is what is said to an authority and how its answers are understood; when to say it, and what must be remembered
//! in between, is the caller's. Every call is one exchange or a few and none waits for the authority's work, so that an
//! order can be taken up again after a kill at each of its steps. Start with [`Authority`].

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
    account::{Account, Reason},
    authority::{Authority, Registered},
    key_change::with_next_key,
    order::{Authorization, Offered, Progress},
    problem::{AcmeError, Problem, ProblemKind},
    renewal::RenewalWindow,
    request::{RequestError, key_and_request},
};

/// Most times that an exchange is begun because the authority refused its nonce. instant-acme tries thrice each time.
const NONCE_ATTEMPTS: usize = 12;

/// One exchange or a few, under way. Boxed: callers run it in tasks, and must know that it can move between threads.
type Exchange<'a, T> = Pin<Box<dyn Future<Output = Result<T, AcmeError>> + Send + 'a>>;

/// Repeats an exchange while the authority refuses its nonces (RFC 8555, 6.5): it has then done nothing.
async fn patiently<'a, T>(exchange: impl Fn() -> Exchange<'a, T> + Send) -> Result<T, AcmeError> {
    for _ in 1..NONCE_ATTEMPTS {
        match exchange().await {
            Err(AcmeError::Refused(problem)) if problem.kind == ProblemKind::BadNonce => {}
            outcome => return outcome,
        }
    }
    exchange().await
}
