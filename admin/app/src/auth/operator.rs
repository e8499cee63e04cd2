//! The operator's secret, which the pages of the `local` code host ask for instead of a password.
//!
//! Wrong guesses are limited per client. A limit across all clients would let strangers lock the operator out by using
//! it up, so it applies only if the secret is short enough for many clients together to guess.

use std::net::IpAddr;

use code_host::local::UNGUESSABLE_CHARS;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{
    App,
    rates::{self, Bucket},
};

/// The outcome of a guess at the operator's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretCheck {
    /// The guess is correct.
    Right,
    /// The guess is wrong.
    Wrong,
    /// Not compared: too many wrong guesses came from this address or, at a short secret, from all addresses together.
    TooMany,
}

/// Compares `given`, received from `client`, with the operator's secret.
pub async fn check_secret(app: &App, client: IpAddr, given: &str) -> SecretCheck {
    // Count first and undo if the guess is right, so that concurrent guesses cannot all slip through.
    let client = rates::client(client);
    let is_guessable = app.config.code_host.client_secret.chars().count() < UNGUESSABLE_CHARS;
    let rates = &app.rate_limits;
    if rates.count_client(Bucket::SignInGuess, &client).await.check().is_err()
        || (is_guessable && rates.count(Bucket::SignInGuessInAll, "all").await.check().is_err())
    {
        return SecretCheck::TooMany;
    }
    if !is_correct(app, given) {
        return SecretCheck::Wrong;
    }
    rates.uncount_client(Bucket::SignInGuess, &client).await;
    if is_guessable {
        rates.uncount(Bucket::SignInGuessInAll, "all").await;
    }
    SecretCheck::Right
}

/// Compares in constant time. Hashing both sides hides their lengths.
fn is_correct(app: &App, given: &str) -> bool {
    let hash = |secret: &str| Sha256::digest(secret);
    let wanted = hash(&app.config.code_host.client_secret);
    hash(given).as_slice().ct_eq(wanted.as_slice()).into()
}
