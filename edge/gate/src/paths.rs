//! The credentials for paths that a site protects itself, by `Basic-Auth` in its `_headers`.
//!
//! They are verified like the site's password: hashed in turn, with few guesses per minute, and cached once verified.

use std::sync::Arc;

use domain::site::Site;
use http::{
    HeaderValue, Response, StatusCode,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
    request::Parts,
};
use http_types::{SiteBody, Visit, pages};
use packs::manifest::GuardAccount;
use subtle::{Choice, ConstantTimeEq as _};

use super::{
    Gatekeeper, GuessOutcome, SEC_FETCH_MODE, SEC_FETCH_SITE, credentials, to_https, too_many, too_many_by_all,
};

impl Gatekeeper {
    /// Finds the one of `accounts` whose name and password a request carries, and returns the hash of its password.
    /// Fails with the response to send if there is none.
    pub async fn identify(
        &self,
        head: &Parts,
        visit: &Visit,
        site: &Site,
        accounts: &[GuardAccount],
    ) -> Result<Arc<str>, Box<Response<SiteBody>>> {
        // Passwords must not be sent in the clear.
        if !visit.tls {
            return Err(Box::new(to_https(head, visit)));
        }
        let sent = head.headers.get(AUTHORIZATION).and_then(credentials::basic);
        let Some((user, password)) = sent else { return Err(Box::new(challenge(head))) };
        let (mut found, mut place) = (Choice::from(0), 0);
        for (at, account) in accounts.iter().enumerate() {
            let is_it = account.user.as_bytes().ct_eq(user.as_bytes());
            place = if bool::from(is_it) { at } else { place };
            found |= is_it;
        }
        let Some(account) = accounts.get(place) else { return Err(Box::new(challenge(head))) };
        let is_known = bool::from(found);
        let hash: Arc<str> = account.hash.as_str().into();
        if is_known && self.verified.is_account_verified(site, visit, &hash, &password) {
            return Ok(hash);
        }
        // An unknown name costs a hash as well, so that timing does not reveal which names exist.
        match self.guess(visit, site, &hash, password.clone(), is_known).await {
            GuessOutcome::Right => {
                self.verified.insert_verified_account(site, visit, &hash, &password);
                Ok(hash)
            }
            GuessOutcome::Wrong => Err(Box::new(challenge(head))),
            GuessOutcome::TooMany(seconds) => Err(Box::new(too_many(seconds))),
            GuessOutcome::TooManyByAll(seconds) => Err(Box::new(too_many_by_all(seconds))),
            GuessOutcome::Busy => Err(Box::new(pages::unavailable())),
        }
    }
}

/// Responds with 401, which asks for a name and a password in the browser's own dialogue.
///
/// Omits the challenge for a subresource of another site's page, whose visitors would face an unrelated dialogue.
pub fn challenge(head: &Parts) -> Response<SiteBody> {
    let text = "This page is for people with a name and a password for it.";
    let page = pages::page(StatusCode::UNAUTHORIZED, "Sign in to see this page", text);
    let is_elsewhere = |from: &HeaderValue| from == "cross-site" || from == "same-site";
    let is_navigation = || head.headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate");
    if head.headers.get(SEC_FETCH_SITE).is_some_and(is_elsewhere) && !is_navigation() {
        return page;
    }
    pages::with_header(page, WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"private\", charset=\"UTF-8\""))
}
