//! The operator's master key, and what is derived from it.
//!
//! Nothing is encrypted with the master key itself: each purpose has a key of its own (HKDF-SHA-256), so that a
//! cookie key in memory opens no row. Sealed rows are XChaCha20-Poly1305, with the row's identity as associated data.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead as _, KeyInit as _, Payload},
};
use hkdf::Hkdf;
use rand::RngExt as _;
use sha2::Sha256;

/// What a derived key is for. The text is part of the derivation: never change one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Sealing private keys of certificates.
    CertificateKeys,
    /// Sealing the code host's device codes and tokens.
    CodeHost,
    /// Authenticating gate cookies.
    GateCookies,
    /// Sealing what a sign-in under way on the web needs.
    SignIns,
    /// Encrypting TLS session tickets; further derived by the hour.
    TlsTickets,
}

impl Purpose {
    const fn label(self) -> &'static str {
        match self {
            Self::CertificateKeys => "certificate keys",
            Self::CodeHost => "code host",
            Self::GateCookies => "gate cookies",
            Self::SignIns => "sign-ins",
            Self::TlsTickets => "tls tickets",
        }
    }
}

/// 32 bytes that the operator keeps in a file of their own.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

/// Why there is no master key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the master key file {path}: {source}")]
    Read {
        /// The configured file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file does not hold a key.
    #[error("the master key file {0} must hold 32 bytes in base64, as `certs master-key` writes them")]
    Form(String),
}

/// The sealed bytes were changed, belong to another row, or were sealed with another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sealed data does not open: wrong key, wrong row, or damaged")]
pub struct Unopenable;

impl MasterKey {
    /// A new random key.
    pub fn generate() -> Self {
        let mut bytes = [0; 32];
        rand::rng().fill(&mut bytes);
        Self(bytes)
    }

    /// From its file.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| KeyError::Read { path: shown.clone(), source })?;
        let bytes = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(KeyError::Form(shown))
    }

    /// The text of its file.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// The key for a purpose; `context` separates keys within it (an hour, say).
    pub fn derive(&self, purpose: Purpose, context: &[u8]) -> [u8; 32] {
        derive(&self.0, purpose.label(), context)
    }

    /// Seals `plain` for the row named by `identity`: nonce, then ciphertext with tag.
    pub fn seal(&self, purpose: Purpose, identity: &[u8], plain: &[u8]) -> Vec<u8> {
        seal(&self.derive(purpose, b""), identity, plain)
    }

    /// Opens what [`Self::seal`] made.
    pub fn open(&self, purpose: Purpose, identity: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Unopenable> {
        open(&self.derive(purpose, b""), identity, sealed)
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

/// A key derived from any secret by HKDF-SHA-256.
pub fn derive(secret: &[u8], label: &str, context: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    // 32 bytes is far below HKDF's limit of 255 blocks, so expand cannot fail.
    let _ = Hkdf::<Sha256>::new(None, secret).expand_multi_info(&[label.as_bytes(), b"\0", context], &mut key);
    key
}

const NONCE_LEN: usize = 24;

/// Seals with a given key; see [`MasterKey::seal`].
pub fn seal(key: &[u8; 32], identity: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut nonce = [0; NONCE_LEN];
    rand::rng().fill(&mut nonce);
    let payload = Payload { msg: plain, aad: identity };
    // Encryption fails only beyond 256 GiB of plain text.
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(&XNonce::from(nonce), payload).unwrap_or_default();
    [nonce.as_slice(), &sealed].concat()
}

/// Opens with a given key; see [`MasterKey::open`].
pub fn open(key: &[u8; 32], identity: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Unopenable> {
    let (nonce, msg) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(Unopenable)?;
    XChaCha20Poly1305::new(key.into())
        .decrypt(&XNonce::from(*nonce), Payload { msg, aad: identity })
        .map_err(|_| Unopenable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_rows_open_only_for_their_own_row_purpose_and_key() {
        let key = MasterKey::generate();
        let sealed = key.seal(Purpose::CodeHost, b"row 1", b"secret");
        assert_eq!(key.open(Purpose::CodeHost, b"row 1", &sealed), Ok(b"secret".to_vec()));
        assert_eq!(key.open(Purpose::CodeHost, b"row 2", &sealed), Err(Unopenable));
        assert_eq!(key.open(Purpose::CertificateKeys, b"row 1", &sealed), Err(Unopenable));
        assert_eq!(MasterKey::generate().open(Purpose::CodeHost, b"row 1", &sealed), Err(Unopenable));
        assert_eq!(key.open(Purpose::CodeHost, b"row 1", b"short"), Err(Unopenable));
    }
}
