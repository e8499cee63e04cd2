//! Why the store, or an upload to it, failed.

use super::ArchiveError;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such pack.
    #[error("no pack of this deployment in the store")]
    NotFound,
    /// `store.url` and the keys beside it do not name a store.
    #[error("{0}")]
    Config(String),
    /// The pack exists and is damaged.
    #[error("the pack is damaged: {0}")]
    Damaged(String),
    /// A file could not be read or written.
    #[error("the folder: {0}")]
    Io(#[from] std::io::Error),
    /// The bucket answered with an error, or not at all.
    #[error("the bucket: {0}")]
    Bucket(object_store::Error),
    /// The whole store is missing: its bucket, or its folder.
    #[error("{0}")]
    Absent(String),
    /// Nothing is removed before the store is known to be this database's.
    #[error("the store is not known to be this database's yet")]
    Unconfirmed,
    /// Another copy of this database rules the store, so that this one removes nothing.
    #[error("another copy of this database rules the store, so that this one moves and deletes nothing")]
    RuledElsewhere,
    /// The bucket took nothing of an upload for too long.
    #[error("the bucket does not answer")]
    Stalled,
    /// A blocking task was cut off: the program is stopping.
    #[error("the program is stopping")]
    Stopping,
}

impl StoreError {
    /// Whether the same may succeed later: the store did not answer, or failed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Bucket(_) | Self::Absent(_) | Self::Stalled | Self::Stopping)
    }

    /// Whether there is no such pack, or no such part of it.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    /// Whether the pack is at fault: it is not there, or damaged. Else the store did not answer.
    pub fn is_of_pack(&self) -> bool {
        matches!(self, Self::NotFound | Self::Damaged(_))
    }
}

/// Why an upload did not become a pack.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The archive was refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
