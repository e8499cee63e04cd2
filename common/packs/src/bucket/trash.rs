//! The trash of a bucket. The server copies the objects; their `Last-Modified` in the trash is the time of the move.
//!
//! Each move copies the data, then the manifest, and only then deletes the manifest and the data: if it is interrupted,
//! the pack is still complete in at least one place.

use domain::{DeploymentId, Timestamp};
use futures_util::TryStreamExt as _;
use object_store::{ObjectStore as _, ObjectStoreExt as _, path::Path};

use super::{PackBucket, StoreError, head, ignore_missing, modified_at, parse_pack_id, put_error};
use crate::trash::{StoredPack, TrashedPack};

/// The object that is written to learn the server's time.
const CLOCK: &str = ".clock";
/// Sorts after the objects of a pack and before those of the next pack.
const AFTER_PACK: &str = "z";

struct PackObjects {
    id: DeploymentId,
    written_at: Timestamp,
    manifest_at: Option<Timestamp>,
    bytes: u64,
}

impl PackBucket {
    pub(crate) async fn now(&self) -> Result<Timestamp, StoreError> {
        let clock = self.trash.clone().join(CLOCK);
        self.s3.put(&clock, bytes::Bytes::new().into()).await.map_err(put_error)?;
        Ok(modified_at(&head(&self.s3, &clock).await?))
    }

    pub(crate) async fn page(&self, after: Option<&DeploymentId>, most: usize) -> Result<Vec<StoredPack>, StoreError> {
        let packs = self.objects(&self.deployments, after, most).await?.into_iter();
        Ok(packs.map(|pack| StoredPack { id: pack.id, written_at: pack.written_at }).collect())
    }

    pub(crate) async fn trash_page(
        &self,
        after: Option<&DeploymentId>,
        most: usize,
    ) -> Result<Vec<TrashedPack>, StoreError> {
        let packs = self.objects(&self.trash, after, most).await?.into_iter();
        let trashed = packs.map(|pack| TrashedPack {
            id: pack.id,
            trashed_at: pack.manifest_at.unwrap_or(pack.written_at),
            bytes: pack.bytes,
            is_whole: pack.manifest_at.is_some(),
        });
        Ok(trashed.collect())
    }

    pub(crate) async fn trash(&self, id: &DeploymentId) -> Result<bool, StoreError> {
        if self.is_missing(&self.manifest_path(id)).await? {
            // A partial upload, or the rest of a move that is complete at the other end.
            self.delete(&self.data_path(id)).await?;
            return Ok(!self.is_missing(&self.trash.clone().join(id.as_str()).join("manifest")).await?);
        }
        self.move_pack(id, &self.deployments, &self.trash).await?;
        Ok(true)
    }

    pub(crate) async fn restore(&self, id: &DeploymentId) -> Result<(), StoreError> {
        if self.is_missing(&self.trash.clone().join(id.as_str()).join("manifest")).await? {
            return Err(StoreError::NotFound);
        }
        self.move_pack(id, &self.trash, &self.deployments).await
    }

    pub(crate) async fn purge(&self, id: &DeploymentId) -> Result<(), StoreError> {
        let folder = self.trash.clone().join(id.as_str());
        self.delete(&folder.clone().join("manifest")).await?;
        self.delete(&folder.join("data")).await
    }

    async fn move_pack(&self, id: &DeploymentId, from: &Path, to: &Path) -> Result<(), StoreError> {
        let (from, to) = (from.clone().join(id.as_str()), to.clone().join(id.as_str()));
        match self.s3.copy(&from.clone().join("data"), &to.clone().join("data")).await {
            // A damaged pack is moved without its missing data.
            Ok(()) => {}
            Err(error) => ignore_missing(error)?,
        }
        self.s3.copy(&from.clone().join("manifest"), &to.join("manifest")).await?;
        self.delete(&from.clone().join("manifest")).await?;
        self.delete(&from.join("data")).await
    }

    async fn is_missing(&self, path: &Path) -> Result<bool, StoreError> {
        match head(&self.s3, path).await {
            Ok(_) => Ok(false),
            Err(StoreError::NotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn objects(
        &self,
        folder: &Path,
        after: Option<&DeploymentId>,
        most: usize,
    ) -> Result<Vec<PackObjects>, StoreError> {
        let mut objects = match after {
            Some(id) => self.s3.list_with_offset(Some(folder), &folder.clone().join(id.as_str()).join(AFTER_PACK)),
            None => self.s3.list(Some(folder)),
        };
        let mut packs: Vec<PackObjects> = Vec::new();
        while let Some(object) = objects.try_next().await? {
            let Some(id) = parse_pack_id(&object) else { continue };
            let at = modified_at(&object);
            let manifest_at = (object.location.filename() == Some("manifest")).then_some(at);
            let is_full = packs.len() == most;
            match packs.last_mut() {
                // The objects of a pack are adjacent.
                Some(last) if last.id == id => {
                    last.written_at = last.written_at.max(at);
                    last.manifest_at = last.manifest_at.or(manifest_at);
                    last.bytes += object.size;
                }
                _ if is_full => break,
                _ => packs.push(PackObjects { id, written_at: at, manifest_at, bytes: object.size }),
            }
        }
        Ok(packs)
    }
}
