//! `Authorization: Basic` with any user name and the site's password.
//!
//! Verified credentials are cached for a while as a keyed hash, so that a script does not cost a password hash per
//! request. They are cached per client: another client, which may have no guesses left, learns nothing from them.

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use domain::site::Site;
use fairness::Client;
use hmac::{Hmac, Mac as _};
use http::HeaderValue;
use http_types::Visit;
use limits::{CREDENTIALS_BYTES, VERIFIED_CREDENTIALS, VERIFIED_LIFE};
use moka::sync::Cache;
use sha2::Sha256;

use super::cookie::{bind_to_site, keyed_mac};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) struct VerifiedCredentials {
    mac: Hmac<Sha256>,
    of_paths: Hmac<Sha256>,
    known: Cache<[u8; 32], ()>,
}

/// Returns the password in an `Authorization: Basic`; `None` for anything else.
pub(super) fn basic_password(authorization: &HeaderValue) -> Option<String> {
    basic(authorization).map(|(_, password)| password)
}

/// Returns the name and the password in an `Authorization: Basic`; `None` for anything else.
pub(super) fn basic(authorization: &HeaderValue) -> Option<(String, String)> {
    let text = authorization.to_str().ok().filter(|text| text.len() <= CREDENTIALS_BYTES)?;
    let (scheme, encoded) = text.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64.decode(encoded.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

impl VerifiedCredentials {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let known = Cache::builder().max_capacity(VERIFIED_CREDENTIALS).time_to_live(VERIFIED_LIFE).build();
        Self { mac: keyed_mac(key, b"basic\0"), of_paths: keyed_mac(key, b"basic of paths\0"), known }
    }

    pub(super) fn is_verified(&self, site: &Site, visit: &Visit, password: &str) -> bool {
        self.known.contains_key(&self.digest(site, visit, password))
    }

    pub(super) fn insert_verified(&self, site: &Site, visit: &Visit, password: &str) {
        self.known.insert(self.digest(site, visit, password), ());
    }

    /// Returns whether this password of the visitor was verified against `hash`, of one of the site's own accounts.
    pub(super) fn is_account_verified(&self, site: &Site, visit: &Visit, hash: &str, password: &str) -> bool {
        self.known.contains_key(&self.account_digest(site, visit, hash, password))
    }

    /// Caches that this password of the visitor matches `hash`.
    pub(super) fn insert_verified_account(&self, site: &Site, visit: &Visit, hash: &str, password: &str) {
        self.known.insert(self.account_digest(site, visit, hash, password), ());
    }

    fn account_digest(&self, site: &Site, visit: &Visit, hash: &str, password: &str) -> [u8; 32] {
        let mut mac = sent_by(&self.of_paths, site, visit);
        // A hash has no zero byte.
        mac.update(hash.as_bytes());
        mac.update(b"\0");
        mac.update(password.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn digest(&self, site: &Site, visit: &Visit, password: &str) -> [u8; 32] {
        let mut mac = sent_by(&self.mac, site, visit);
        mac.update(password.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

/// Returns a keyed hash of the site and host, and of the visiting client.
fn sent_by(mac: &Hmac<Sha256>, site: &Site, visit: &Visit) -> Hmac<Sha256> {
    let mut mac = bind_to_site(mac, site, &visit.host);
    // An address has no zero byte.
    mac.update(Client::from(visit.client).to_string().as_bytes());
    mac.update(b"\0");
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_basic_credentials_hold_a_password() {
        let cases = [
            ("Basic dXNlcjpvcGVuOnNlc2FtZQ==", Some("open:sesame")),
            ("basic OnNlY3JldA==", Some("secret")),
            ("Basic OnNlY3JldA", Some("secret")),
            ("Basic dXNlcg==", None),
            ("Basic %%%", None),
            ("Basic //79", None),
            ("Basic", None),
            ("Bearer dXNlcjpvcGVu", None),
        ];
        for (header, expected) in cases {
            assert_eq!(basic_password(&HeaderValue::from_static(header)).as_deref(), expected, "{header}");
        }
        let long = format!("Basic {}", "A".repeat(CREDENTIALS_BYTES));
        assert_eq!(basic_password(&HeaderValue::try_from(long).unwrap()), None);
    }
}
