//! The operator's secret: what the pages of the `local` code host ask for instead of a password.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{
    app::App,
    middleware::rate_limit::{self, Bucket},
};

/// What a guess at it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// It is.
    Right,
    /// It is not.
    Wrong,
    /// Not looked at: too many wrong ones from this address.
    TooMany,
}

/// Judges `given`, which came from `client`.
pub async fn guess(app: &App, client: IpAddr, given: &str) -> Guess {
    // Counted first and taken back when right: guesses made at once cannot all slip through.
    let client = rate_limit::subject(client);
    if app.rate_limits.count(Bucket::SignInGuess, &client).await.check().is_err() {
        return Guess::TooMany;
    }
    if !is_right(app, given) {
        return Guess::Wrong;
    }
    app.rate_limits.uncount(Bucket::SignInGuess, &client).await;
    Guess::Right
}

/// In constant time; the hashes hide the lengths.
fn is_right(app: &App, given: &str) -> bool {
    let hash = |secret: &str| Sha256::digest(secret);
    let wanted = hash(&app.config.code_host.client_secret);
    hash(given).as_slice().ct_eq(wanted.as_slice()).into()
}
