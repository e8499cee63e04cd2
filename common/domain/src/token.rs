//! API tokens: their kinds, and the form of their secrets.
//!
//! A secret is `svc_` and 43 URL-safe characters (32 random bytes). Only its SHA-256 is ever stored.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::RngExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::BRAND;

/// The kind of a token: the API that it works against. Kinds are not interchangeable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TokenKind {
    /// A user's, for the control plane.
    Cli,
    /// A user's or an org's, for the AI gateway only.
    Ai,
    /// An org's, for five operations of the control plane.
    Deploy,
}

impl TokenKind {
    /// Returns the kind's word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Ai => "ai",
            Self::Deploy => "deploy",
        }
    }
}

/// A bearer secret in the clear. It has no `Debug` output.
#[derive(Clone)]
pub struct TokenSecret(SecretString);

/// SHA-256 of a bearer secret: what the database keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenSecret {
    /// Makes a new secret.
    pub fn generate() -> Self {
        let mut bytes = [0_u8; 32];
        rand::rng().fill(&mut bytes);
        Self(format!("{BRAND}_{}", URL_SAFE_NO_PAD.encode(bytes)).into())
    }

    /// Reads `text` as a secret if it has the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let tail = text.strip_prefix(BRAND)?.strip_prefix('_')?;
        let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (tail.len() == 43 && tail.bytes().all(url_safe)).then(|| Self(text.to_owned().into()))
    }

    /// Returns the secret in the clear, to hand to its owner.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns the hash, which is stored and looked up by.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.expose()).into())
    }
}

impl TokenHash {
    /// Returns the bytes, for the database.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
