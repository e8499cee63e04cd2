//! The seal of a manifest: its SHA-256 within the object itself, which reveals a manifest that is damaged, truncated or
//! another deployment's.
//!
//! It is a field at each end of the JSON, which readers of earlier versions ignore: `{"sealed":true,…,"sha256":"…"}`.
//! The hash covers the deployment's id and everything before that last field. A manifest with neither field is from an
//! earlier version; one with either was sealed.

use domain::DeploymentId;
use sha2::{Digest as _, Sha256};

use super::{Manifest, StoreError};

const HEAD: &[u8] = br#"{"sealed":true,"#;
const TAIL: &[u8] = br#","sha256":""#;
const END: &[u8] = br#""}"#;
const HEX_BYTES: usize = 64;

/// Serializes and seals the manifest of deployment `id`.
pub(super) fn seal(id: &DeploymentId, manifest: &Manifest) -> Result<Vec<u8>, StoreError> {
    let json = serde_json::to_vec(manifest).map_err(|error| StoreError::Damaged(format!("its manifest: {error}")))?;
    // The JSON without its braces.
    let fields = json.get(1..json.len() - 1).unwrap_or_default();
    let mut sealed = [HEAD, fields].concat();
    let hash = hash(id, &sealed);
    for part in [TAIL, hash.as_bytes(), END] {
        sealed.extend_from_slice(part);
    }
    Ok(sealed)
}

/// Fails if a sealed manifest was changed or belongs to another deployment than `id`.
pub(super) fn check(id: &DeploymentId, json: &[u8]) -> Result<(), StoreError> {
    let parts = json.len().checked_sub(TAIL.len() + HEX_BYTES + END.len()).map(|at| json.split_at(at));
    let tail = parts.and_then(|(before, tail)| {
        let hash = tail.strip_prefix(TAIL)?.strip_suffix(END)?;
        Some((before, hash))
    });
    match tail {
        None if !json.starts_with(HEAD) => Ok(()),
        Some((before, sealed)) if json.starts_with(HEAD) && hash(id, before).as_bytes() == sealed => Ok(()),
        _ => Err(StoreError::Damaged("its manifest is not what was sealed".into())),
    }
}

fn hash(id: &DeploymentId, before: &[u8]) -> String {
    let mut hash = Sha256::new_with_prefix(id.as_str());
    hash.update(before);
    hex::encode(hash.finalize())
}
