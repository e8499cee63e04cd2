//! API tokens: kinds, and the format of secrets.
//!
//! A secret is `svc_` and 43 URL-safe characters (32 random bytes). Only its SHA-256 is ever stored.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::RngExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::BRAND;

/// The kind of a token, which determines the API that it works with. Kinds are not interchangeable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TokenKind {
    /// A user's token for the control plane.
    Cli,
    /// A user's or an org's token for the AI gateway only.
    Ai,
    /// An org's token for five operations of the control plane.
    Deploy,
}

impl TokenKind {
    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Ai => "ai",
            Self::Deploy => "deploy",
        }
    }
}

/// A bearer secret in the clear. Never printed.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^svc_[A-Za-z0-9_-]{43}$"))]
pub struct TokenSecret(SecretString);

/// The text does not have the form of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token is `{BRAND}_` and 43 letters, digits, hyphens and underscores")]
pub struct TokenError;

/// The SHA-256 of a bearer secret, as stored in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenSecret {
    /// Creates a new secret.
    pub fn generate() -> Self {
        let mut bytes = [0_u8; 32];
        rand::rng().fill(&mut bytes);
        Self(format!("{BRAND}_{}", URL_SAFE_NO_PAD.encode(bytes)).into())
    }

    /// Parses `text` if it has the form of a secret.
    pub fn parse(text: &str) -> Option<Self> {
        let tail = text.strip_prefix(BRAND)?.strip_prefix('_')?;
        let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (tail.len() == 43 && tail.bytes().all(url_safe)).then(|| Self(text.to_owned().into()))
    }

    /// Returns the secret in the clear, to hand to its owner.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns the hash, for storage and lookup.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.expose()).into())
    }
}

impl TryFrom<String> for TokenSecret {
    type Error = TokenError;
    fn try_from(text: String) -> Result<Self, TokenError> {
        Self::parse(&text).ok_or(TokenError)
    }
}

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

impl TokenHash {
    /// Returns the bytes, for the database.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
