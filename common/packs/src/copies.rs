//! Copies of whole packs, to a replica of the store and back.
//!
//! A copy is verified by its digests before any of it is written, so that damage is never copied.

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
};

use bytes::Bytes;
use domain::{DeploymentId, Timestamp};

use super::{PackStore, ReadPace, StoreBackend, StoreError, blocking, check::check_file, listing};

const READ_BYTES: u64 = 4 * 1024 * 1024;

/// A complete, verified pack, with its data in a temporary file.
#[derive(Debug)]
pub struct WholePack {
    data: File,
    manifest: Vec<u8>,
}

impl PackStore {
    /// Reads a whole pack. Fails with [`StoreError::NotFound`] or [`StoreError::Damaged`] unless complete and
    /// unchanged.
    pub async fn fetch(&self, id: &DeploymentId, pace: &mut ReadPace) -> Result<WholePack, StoreError> {
        let json = self.manifest_json(id).await?;
        let manifest =
            serde_json::from_slice(&json).map_err(|error| StoreError::Damaged(format!("its manifest: {error}")))?;
        let len = self.data_len(id).await?;
        let mut data = blocking(|| Ok::<_, StoreError>(tempfile::tempfile()?)).await?;
        let mut offset = 0;
        while offset < len {
            let bytes: Bytes = self.read(id, offset, READ_BYTES.min(len - offset)).await?;
            let read = bytes.len() as u64;
            data = blocking(move || {
                data.write_all(&bytes)?;
                Ok::<_, StoreError>(data)
            })
            .await?;
            offset += read;
            pace.after(read).await;
        }
        Ok(WholePack { data: check_file(manifest, data).await?, manifest: json })
    }

    /// Writes a copy of a pack unless it exists.
    pub async fn put_copy(&self, id: &DeploymentId, pack: WholePack) -> Result<(), StoreError> {
        match self.probe(id).await {
            Ok(()) => return Ok(()),
            Err(StoreError::NotFound) => {}
            // An incomplete or damaged copy.
            Err(StoreError::Damaged(_)) => self.remove(id).await?,
            Err(error) => return Err(error),
        }
        self.put_over(id, pack, None).await
    }

    /// Replaces a pack. The existing one is moved to `damaged/` in the store.
    pub async fn replace(&self, id: &DeploymentId, pack: WholePack, now: Timestamp) -> Result<(), StoreError> {
        self.put_over(id, pack, Some(format!("{id}-{}", now.unix_seconds()))).await
    }

    async fn put_over(&self, id: &DeploymentId, pack: WholePack, aside: Option<String>) -> Result<(), StoreError> {
        let WholePack { mut data, manifest } = pack;
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || {
                    let incoming = folder.begin_again(&id)?;
                    let mut copy = incoming.data()?;
                    data.rewind()?;
                    io::copy(&mut data, &mut copy)?;
                    let aside = aside.map(|name| folder.damaged_path(&name));
                    incoming.finish_over(&copy, &manifest, aside.as_deref())
                })
                .await
            }
            StoreBackend::Bucket(bucket) => {
                if let Some(name) = aside {
                    bucket.copy_aside(id, &name).await?;
                }
                bucket.put_over(id, data, manifest).await
            }
        }
    }

    /// Checks that a pack can be served: its manifest is present and unchanged, and its data present and long enough.
    pub async fn probe(&self, id: &DeploymentId) -> Result<(), StoreError> {
        let json = self.manifest_json(id).await?;
        let end = blocking(move || listing::data_end(&json)).await?;
        if self.data_len(id).await? < end {
            return Err(StoreError::Damaged("its data ends before a span".into()));
        }
        Ok(())
    }

    pub(super) async fn data_len(&self, id: &DeploymentId) -> Result<u64, StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || folder.data_len(&id)).await
            }
            StoreBackend::Bucket(bucket) => bucket.data_len(id).await,
        }
    }
}
