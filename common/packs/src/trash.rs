//! The trash: packs that were removed, kept for a while beside the others.
//!
//! `trash/<dep id>/` holds what `deployments/<dep id>/` held. Nothing is served or listed from there; a pack comes back
//! whole or is purged. The store's own clock says since when a pack is in the trash: the clock of the machine that moved it
//! may be wrong, and the database may be another one by then. When a pack is purged is up to admin.

use domain::{DeploymentId, Timestamp};

use super::{PackStore, Place, StoreError, blocking};

/// A pack in the store, or what was written of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPack {
    /// The deployment that it belongs to.
    pub id: DeploymentId,
    /// The time of its last write, by the store's clock.
    pub written_at: Timestamp,
}

/// A pack in the trash, or what is left of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrashedPack {
    /// The deployment that it belonged to.
    pub id: DeploymentId,
    /// The time at which it was moved to the trash, by the store's clock.
    pub trashed_at: Timestamp,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it can be restored. What cannot was left by a move that was interrupted, and is whole elsewhere.
    pub is_whole: bool,
}

impl PackStore {
    /// Returns the time by the store's clock: that of the bucket's server, or of the machine that has the folder.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        match &self.place {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.now()).await
            }
            Place::Bucket(bucket) => bucket.now().await,
        }
    }

    /// Lists packs in the order of their ids, which is that of their making, half-written ones too: at most `most`, those
    /// after `after`.
    pub async fn page(&self, after: Option<&DeploymentId>, most: usize) -> Result<Vec<StoredPack>, StoreError> {
        match &self.place {
            Place::Folder(folder) => {
                let (folder, after) = (folder.clone(), after.cloned());
                blocking(move || folder.page(after.as_ref(), most)).await
            }
            Place::Bucket(bucket) => bucket.page(after, most).await,
        }
    }

    /// Lists the packs in the trash in the order of their ids: at most `most`, those after `after`.
    pub async fn trash_page(&self, after: Option<&DeploymentId>, most: usize) -> Result<Vec<TrashedPack>, StoreError> {
        match &self.place {
            Place::Folder(folder) => {
                let (folder, after) = (folder.clone(), after.cloned());
                blocking(move || folder.trash_page(after.as_ref(), most)).await
            }
            Place::Bucket(bucket) => bucket.trash_page(after, most).await,
        }
    }

    /// Moves a pack to the trash, and returns whether it is there now: moved by this call, or by one whose caller did not live to
    /// hear of it. What is half-written is removed for good. A move that is interrupted leaves the pack whole in one of both
    /// places, and may be repeated.
    pub async fn trash(&self, id: &DeploymentId) -> Result<bool, StoreError> {
        self.removals_allowed()?;
        match &self.place {
            Place::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || folder.trash(&id)).await
            }
            Place::Bucket(bucket) => bucket.trash(id).await,
        }
    }

    /// Takes a pack out of the trash. Fails with [`StoreError::NotFound`] when it is not there.
    pub async fn restore(&self, id: &DeploymentId) -> Result<(), StoreError> {
        match &self.place {
            Place::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || folder.restore(&id)).await
            }
            Place::Bucket(bucket) => bucket.restore(id).await,
        }
    }

    /// Deletes a pack in the trash for good. Succeeds when there is none.
    pub async fn purge(&self, id: &DeploymentId) -> Result<(), StoreError> {
        self.removals_allowed()?;
        match &self.place {
            Place::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || folder.purge(&id)).await
            }
            Place::Bucket(bucket) => bucket.purge(id).await,
        }
    }
}
