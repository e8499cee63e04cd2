//! What an edge shows admin, so that admin believes what the edge says of its client. Both have the master key.
//!
//! It is the same in every request, so it proves nothing to who can listen between the two: that network must be private.

use subtle::ConstantTimeEq as _;

use crate::{MasterKey, Purpose};

/// The header in which an edge sends its proof.
pub const HEADER: &str = "x-svc-edge";

impl MasterKey {
    /// Returns the value that an edge sends in [`HEADER`].
    pub fn edge_proof(&self) -> String {
        hex::encode(self.derive(Purpose::EdgeProof, b""))
    }

    /// Whether an edge sent `value`. Any of the keys may have been its first: while the master key is exchanged, programs
    /// read the file at different moments.
    pub fn is_edge_proof(&self, value: &[u8]) -> bool {
        let mut given = [0; 32];
        hex::decode_to_slice(value, &mut given).is_ok()
            && self.keys().iter().any(|key| key.derive(Purpose::EdgeProof, b"").ct_eq(&given).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_key::Key;

    #[test]
    fn only_the_master_keys_own_proof_is_one() {
        let (key, other) = (MasterKey::generate(), MasterKey::generate());
        assert!(key.is_edge_proof(key.edge_proof().as_bytes()));
        let proof = key.edge_proof();
        for wrong in ["", "00", &other.edge_proof(), &proof[..62], &format!("{proof}00"), &"0".repeat(64)] {
            assert!(!key.is_edge_proof(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn a_proof_by_a_key_that_is_being_exchanged_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let load = |lines: &[&str]| {
            let path = folder.path().join(lines.len().to_string());
            std::fs::write(&path, lines.join("\n")).unwrap();
            MasterKey::load(&path).unwrap()
        };
        let [old, new] = [(); 2].map(|()| Key::generate().to_base64());
        let (before, after) = (load(&[&old]), load(&[&new, &old]));
        assert!(after.is_edge_proof(before.edge_proof().as_bytes()));
        assert!(after.is_edge_proof(after.edge_proof().as_bytes()));
        assert!(!before.is_edge_proof(after.edge_proof().as_bytes()));
    }
}
