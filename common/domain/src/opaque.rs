//! Opaque secrets for sessions, pending sign-ins and tickets: 32 random bytes in 43 URL-safe characters, stored as
//! SHA-256.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::RngExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

const BYTES: usize = 32;

/// A random secret. Its `Debug` output does not show it.
#[derive(Debug, Clone)]
pub struct OpaqueSecret(SecretString);

impl OpaqueSecret {
    /// Creates a new secret.
    pub fn generate() -> Self {
        let bytes: [u8; BYTES] = rand::rng().random();
        Self(URL_SAFE_NO_PAD.encode(bytes).into())
    }

    /// Parses `text` if it has the form of a secret.
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(|_| Self(text.to_owned().into()))
    }

    /// Returns the secret in the clear, to hand out.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns the SHA-256 of the secret, for storage and lookup.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.expose()).into()
    }
}

/// Encodes a hash for use in a URL.
pub fn encode(hash: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(hash)
}

/// Decodes the output of [`encode`].
pub fn decode(text: &str) -> Option<[u8; 32]> {
    // The encoding is canonical: no other text decodes to the same bytes.
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_in_one_form_only() {
        let secret = OpaqueSecret::generate();
        assert_eq!(secret.expose().len(), 43);
        assert_eq!(OpaqueSecret::parse(secret.expose()).unwrap().hash(), secret.hash());
        assert_ne!(OpaqueSecret::generate().hash(), secret.hash());
        assert!(!format!("{secret:?}").contains(secret.expose()));
        let (full, long) = ("A".repeat(43), "A".repeat(44));
        assert!(decode(&full).is_some());
        // `B` at the end would decode to the same bytes as `A`.
        for bad in ["", "A", &full[..42], &long, &format!("{}B", &full[..42]), &format!("{full}="), &"é".repeat(43)] {
            assert!(decode(bad).is_none(), "{bad}");
        }
        assert_eq!(decode(&encode(&[7; 32])), Some([7; 32]));
    }
}
