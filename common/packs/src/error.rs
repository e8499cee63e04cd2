//! Errors of the store and of uploads.

use super::ArchiveError;

/// The error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such pack.
    #[error("no pack of this deployment in the store")]
    NotFound,
    /// `store.url` and its companion keys do not name a store.
    #[error("{0}")]
    Config(String),
    /// The pack exists and is damaged.
    #[error("the pack is damaged: {0}")]
    Damaged(String),
    /// A file could not be read or written.
    #[error("the folder: {0}")]
    Io(#[from] std::io::Error),
    /// The bucket responded with an error or not at all.
    #[error("the bucket: {0}")]
    Bucket(object_store::Error),
    /// The whole store is missing: its bucket, or its folder.
    #[error("{0}")]
    Absent(String),
    /// Packs cannot be removed until the store is confirmed to belong to this database.
    #[error("the store is not known to be this database's yet")]
    Unconfirmed,
    /// Another copy of this database rules the store, so this one removes nothing.
    #[error("another copy of this database rules the store, so that this one moves and deletes nothing")]
    RuledElsewhere,
    /// The upload to the bucket stalled.
    #[error("the bucket does not answer")]
    Stalled,
    /// A blocking task was cancelled because the program is stopping.
    #[error("the program is stopping")]
    Stopping,
}

impl StoreError {
    /// Returns whether a retry may succeed: the store did not answer, or failed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Bucket(_) | Self::Absent(_) | Self::Stalled | Self::Stopping)
    }

    /// Returns whether the pack or the part of it does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    /// Returns whether the pack itself is at fault (missing or damaged), rather than the store.
    pub fn is_pack_fault(&self) -> bool {
        matches!(self, Self::NotFound | Self::Damaged(_))
    }
}

/// The reason an upload did not become a pack.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The archive was rejected.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
