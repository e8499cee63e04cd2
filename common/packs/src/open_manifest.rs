//! A manifest that was opened but not read yet, so that the reader can reserve memory.

use std::{fs::File, io::Read as _};

use domain::DeploymentId;
use object_store::GetResult;

use super::{Manifest, StoreError, blocking, folder, seal};

/// Approximate bytes of memory per stored byte of a manifest while it is read: the text and the parsed form.
const MANIFEST_READ_FACTOR: u64 = 3;

/// An opened manifest.
pub struct OpenManifest {
    pub(super) id: DeploymentId,
    pub(super) len: u64,
    pub(super) source: ManifestSource,
}

pub(super) enum ManifestSource {
    File(File),
    Object(Box<GetResult>),
}

impl OpenManifest {
    /// Returns the approximate bytes of memory needed to read the manifest.
    pub fn read_bytes(&self) -> u64 {
        self.len * MANIFEST_READ_FACTOR
    }

    /// Reads the manifest.
    pub async fn read(self) -> Result<Manifest, StoreError> {
        let json = self.read_json().await?;
        let manifest: Manifest =
            serde_json::from_slice(&json).map_err(|error| StoreError::Damaged(format!("its manifest: {error}")))?;
        if !Manifest::is_readable(manifest.version) {
            return Err(StoreError::Damaged(format!("its manifest has form {}", manifest.version)));
        }
        Ok(manifest)
    }

    /// Reads the stored JSON of the manifest and verifies its seal.
    pub(super) async fn read_json(self) -> Result<Vec<u8>, StoreError> {
        let json: Vec<u8> = match self.source {
            ManifestSource::File(file) => {
                let len = self.len;
                blocking(move || {
                    let mut json = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
                    file.take(len).read_to_end(&mut json).map_err(folder::read_error)?;
                    Ok::<_, StoreError>(json)
                })
                .await?
            }
            ManifestSource::Object(found) => found.bytes().await?.into(),
        };
        seal::check(&self.id, &json)?;
        Ok(json)
    }
}

impl std::fmt::Debug for OpenManifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenManifest").field("len", &self.len).finish_non_exhaustive()
    }
}
