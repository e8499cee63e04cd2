//! The proof in an unsubscribe link that the link comes from one of our letters.
//!
//! Anyone with the link may unsubscribe. It permits nothing else, and does not expire.

use subtle::ConstantTimeEq as _;

use crate::{KeyPurpose, MasterKey};

const PROOF_BYTES: usize = 20;

impl MasterKey {
    /// Creates the proof of a link that does `what`.
    pub fn letter_link(&self, what: &[u8]) -> String {
        hex::encode(&self.derive(KeyPurpose::LetterLinks, what)[..PROOF_BYTES])
    }

    /// Returns whether `proof` is for a link that does `what`. Any key may have made it: letters stay in mailboxes.
    pub fn is_letter_link(&self, what: &[u8], proof: &str) -> bool {
        let mut given = [0; PROOF_BYTES];
        hex::decode_to_slice(proof, &mut given).is_ok()
            && self
                .keys()
                .iter()
                .any(|key| key.derive(KeyPurpose::LetterLinks, what)[..PROOF_BYTES].ct_eq(&given).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_key::MasterKeyBytes;

    #[test]
    fn a_proof_is_for_one_link_of_one_platform() {
        let (key, other) = (MasterKey::generate(), MasterKey::generate());
        let proof = key.letter_link(b"one");
        assert!(key.is_letter_link(b"one", &proof));
        assert!(!key.is_letter_link(b"other", &proof) && !other.is_letter_link(b"one", &proof));
        for wrong in ["", "00", &proof[..38], &format!("{proof}00"), &"0".repeat(40), "é"] {
            assert!(!key.is_letter_link(b"one", wrong), "{wrong}");
        }
    }

    #[test]
    fn links_outlive_the_exchange_of_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let load = |lines: &[&str]| {
            let path = folder.path().join(lines.len().to_string());
            std::fs::write(&path, lines.join("\n")).unwrap();
            MasterKey::load(&path).unwrap()
        };
        let [old, new] = [(); 2].map(|()| MasterKeyBytes::generate().to_base64());
        let proof = load(&[&old]).letter_link(b"one");
        assert!(load(&[&new, &old]).is_letter_link(b"one", &proof));
    }
}
