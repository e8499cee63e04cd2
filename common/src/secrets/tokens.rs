//! Bearer secrets: `svc_` and 43 URL-safe characters (32 random bytes). Only the SHA-256 is ever stored.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::RngExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::BRAND;

/// A bearer secret in the clear; it prints as nothing.
#[derive(Clone)]
pub struct TokenSecret(SecretString);

/// SHA-256 of a bearer secret: what the database keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenSecret {
    /// A new secret.
    pub fn generate() -> Self {
        Self(format!("{BRAND}_{}", random_text()).into())
    }

    /// The text as a secret, if it has a secret's form.
    pub fn parse(text: &str) -> Option<Self> {
        let tail = text.strip_prefix(BRAND)?.strip_prefix('_')?;
        is_random_text(tail).then(|| Self(text.to_owned().into()))
    }

    /// The secret itself, to hand to its owner.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What to store, and to look up by.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.expose()).into())
    }
}

/// The secret of an invite's link: 43 URL-safe characters. It has no prefix, and is no token of the API.
#[derive(Clone)]
pub struct InviteSecret(SecretString);

impl InviteSecret {
    /// A new secret.
    pub fn generate() -> Self {
        Self(random_text().into())
    }

    /// The text as a secret, if it has a secret's form.
    pub fn parse(text: &str) -> Option<Self> {
        is_random_text(text).then(|| Self(text.to_owned().into()))
    }

    /// The secret itself, to hand to who is invited.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What to store, and to look up by.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.expose()).into())
    }
}

/// 32 random bytes, URL-safe.
fn random_text() -> String {
    let mut bytes = [0_u8; 32];
    rand::rng().fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn is_random_text(text: &str) -> bool {
    let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    text.len() == 43 && text.bytes().all(url_safe)
}

impl TokenHash {
    /// The bytes, for the database.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
