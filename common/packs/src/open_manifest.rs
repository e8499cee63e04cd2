//! A manifest between its look-up and its reading, when its reader makes room for it.

use std::{fs::File, io::Read as _};

use domain::DeploymentId;
use object_store::GetResult;

use super::{Manifest, StoreError, blocking, folder, seal};

/// Bytes of memory that each byte of a stored manifest takes while it is read, about: as text, and as what it says.
const MANIFEST_READ_FACTOR: u64 = 3;

/// A manifest that is about to be read.
pub struct OpenManifest {
    pub(super) id: DeploymentId,
    /// Bytes of the manifest as it is stored.
    pub(super) len: u64,
    pub(super) source: ManifestSource,
}

pub(super) enum ManifestSource {
    File(File),
    Object(Box<GetResult>),
}

impl OpenManifest {
    /// Bytes of memory that it takes to read the manifest, about.
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

    /// Reads the manifest as it is stored, once its seal was checked.
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
