//! Signatures of values that are handed out and come back unchanged, such as links that expire. Only programs with the
//! master key can create and verify them.

use subtle::ConstantTimeEq as _;

use crate::{KeyPurpose, MasterKey};

/// The length of a signature, in bytes.
pub const SIGNATURE_LEN: usize = 32;

impl MasterKey {
    /// Signs `message` for a purpose: HKDF's expansion to one block, which is an HMAC-SHA-256 with a key of our own.
    pub fn sign(&self, purpose: KeyPurpose, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.derive(purpose, message)
    }

    /// Returns whether `signature` is that of `message`, by any of the keys: signatures outlive a key rotation.
    pub fn is_signature(&self, purpose: KeyPurpose, message: &[u8], signature: &[u8]) -> bool {
        self.keys().iter().any(|key| key.derive(purpose, message).ct_eq(signature).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_key::MasterKeyBytes;

    #[test]
    fn a_signature_is_of_one_message_purpose_and_key() {
        let key = MasterKey::generate();
        let signature = key.sign(KeyPurpose::DocumentLinks, b"message");
        assert!(key.is_signature(KeyPurpose::DocumentLinks, b"message", &signature));
        assert!(!key.is_signature(KeyPurpose::DocumentLinks, b"messagf", &signature));
        assert!(!key.is_signature(KeyPurpose::DomainClaims, b"message", &signature));
        assert!(!key.is_signature(KeyPurpose::DocumentLinks, b"message", &signature[..31]));
        assert!(!MasterKey::generate().is_signature(KeyPurpose::DocumentLinks, b"message", &signature));
    }

    #[test]
    fn a_signature_outlives_the_exchange_of_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let load = |lines: &[&str]| {
            let path = folder.path().join(lines.len().to_string());
            std::fs::write(&path, lines.join("\n")).unwrap();
            MasterKey::load(&path).unwrap()
        };
        let [old, new] = [(); 2].map(|()| MasterKeyBytes::generate().to_base64());
        let (before, after) = (load(&[&old]), load(&[&new, &old]));
        let signature = before.sign(KeyPurpose::DocumentLinks, b"message");
        assert_ne!(after.sign(KeyPurpose::DocumentLinks, b"message"), signature);
        assert!(after.is_signature(KeyPurpose::DocumentLinks, b"message", &signature));
    }
}
