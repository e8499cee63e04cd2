//! The trash: removed packs, kept for a while next to the others.
//!
//! `trash/<dep id>/` has the content of `deployments/<dep id>/`. Nothing is served or listed from there; a pack is
//! restored as a whole or purged. The time of removal comes from the store's own clock, because the clock of the
//! machine that moved the pack may be wrong, and the database may be a different one by then. Admin decides when to
//! purge a pack.

use domain::{DeploymentId, Timestamp};

use super::{PackStore, StoreBackend, StoreError, blocking};

/// A pack in the store, possibly unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPack {
    /// The deployment of the pack.
    pub id: DeploymentId,
    /// The time of the last write, by the store's clock.
    pub written_at: Timestamp,
}

/// A pack in the trash, possibly incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashedPack {
    /// The deployment of the pack.
    pub id: DeploymentId,
    /// The time of the move to the trash, by the store's clock.
    pub trashed_at: Timestamp,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether the pack can be restored. If not, it is the rest of an interrupted move, and complete at the other end.
    pub is_whole: bool,
}

impl PackStore {
    /// Returns the time of the store's clock: that of the bucket's server, or of the machine that has the folder.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.now()).await
            }
            StoreBackend::Bucket(bucket) => bucket.now().await,
        }
    }

    /// Lists at most `most` packs after `after`, including unfinished ones, by id and so by creation time.
    pub async fn page(&self, after: Option<&DeploymentId>, most: usize) -> Result<Vec<StoredPack>, StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, after) = (folder.clone(), after.cloned());
                blocking(move || folder.page(after.as_ref(), most)).await
            }
            StoreBackend::Bucket(bucket) => bucket.page(after, most).await,
        }
    }

    /// Lists at most `most` packs in the trash after `after`, in the order of their ids.
    pub async fn trash_page(&self, after: Option<&DeploymentId>, most: usize) -> Result<Vec<TrashedPack>, StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, after) = (folder.clone(), after.cloned());
                blocking(move || folder.trash_page(after.as_ref(), most)).await
            }
            StoreBackend::Bucket(bucket) => bucket.trash_page(after, most).await,
        }
    }

    /// Moves a pack to the trash. Returns whether it is there now, through this call or an earlier one that was cut
    /// off.
    ///
    /// An unfinished pack is deleted permanently. After an interrupted move, which can be repeated, the pack is
    /// complete in at least one of both places.
    pub async fn trash(&self, id: &DeploymentId) -> Result<bool, StoreError> {
        self.check_removals_allowed()?;
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || folder.trash(&id)).await
            }
            StoreBackend::Bucket(bucket) => bucket.trash(id).await,
        }
    }

    /// Restores a pack from the trash. Fails with [`StoreError::NotFound`] if it is not there.
    pub async fn restore(&self, id: &DeploymentId) -> Result<(), StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || folder.restore(&id)).await
            }
            StoreBackend::Bucket(bucket) => bucket.restore(id).await,
        }
    }

    /// Permanently deletes a pack in the trash. Succeeds if there is none.
    pub async fn purge(&self, id: &DeploymentId) -> Result<(), StoreError> {
        self.check_removals_allowed()?;
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || folder.purge(&id)).await
            }
            StoreBackend::Bucket(bucket) => bucket.purge(id).await,
        }
    }
}
