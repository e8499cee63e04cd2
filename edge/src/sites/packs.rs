//! Where packs come from: the store, or a test's memory.

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use domain::DeploymentId;
use fairness::budget::{Account, Grant, Patience};
use packs::{Manifest, PackStore, StoreError, manifest::Account as PathAccount};

use crate::limits::{FLIGHT_WAIT, MANIFEST_FLIGHT_DIVISOR, STORE_WAIT};

/// Reads packs. [`packs::PackStore`], or a test's memory.
#[async_trait]
pub trait Packs: Send + Sync + 'static {
    /// The manifest of a pack, and the grant for the memory that it takes to read it, drawn at `account` before any of it is read.
    async fn manifest(&self, id: &DeploymentId, account: &Account) -> Result<(Manifest, Grant), PackError>;
    /// Exactly `len` bytes of a pack's data from `offset` on.
    async fn read(&self, id: &DeploymentId, offset: u64, len: u64) -> Result<Bytes, PackError>;
    /// Whether each read is a request over the network, of which few large ones are better than many small ones.
    fn is_remote(&self) -> bool;
}

/// Why a pack could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PackError {
    /// There is no such pack: its deployment was deleted, unless the store has lost it.
    #[error("there is no such pack")]
    Missing,
    /// The deployment is there, and its pack is not.
    #[error("its pack is lost")]
    Lost,
    /// The store has other bytes than were written, or less.
    #[error("its pack is damaged: {0}")]
    Damaged(Arc<str>),
    /// The store does not answer.
    #[error("the store failed: {0}")]
    Unavailable(Arc<str>),
    /// The answer is only for some of these accounts, and the request is none of theirs so far.
    #[error("its paths are guarded")]
    Guarded(Arc<[PathAccount]>),
}

impl PackError {
    /// From whatever the store says.
    pub(crate) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::Unavailable(why.to_string().into())
    }

    /// Whether the pack is at fault, and not the way to it.
    pub(crate) fn is_of_pack(&self) -> bool {
        !matches!(self, Self::Unavailable(_) | Self::Guarded(_))
    }
}

#[async_trait]
impl Packs for PackStore {
    async fn manifest(&self, id: &DeploymentId, account: &Account) -> Result<(Manifest, Grant), PackError> {
        let stored = self.open_manifest(id).await?;
        let grant = room_for(stored.read_bytes(), account).await?;
        Ok((stored.read().await?, grant))
    }

    async fn read(&self, id: &DeploymentId, offset: u64, len: u64) -> Result<Bytes, PackError> {
        Ok(self.read(id, offset, len).await?)
    }

    fn is_remote(&self) -> bool {
        self.is_remote()
    }
}

impl From<StoreError> for PackError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::Missing,
            StoreError::Damaged(why) => Self::Damaged(why.into()),
            other => Self::unavailable(other),
        }
    }
}

/// Draws what it takes to read something, as much as a read may have at most.
pub(crate) async fn room_for(bytes: u64, account: &Account) -> Result<Grant, PackError> {
    let most = account.limit() / MANIFEST_FLIGHT_DIVISOR;
    let patience = Patience { own: FLIGHT_WAIT, others: FLIGHT_WAIT };
    account.take(bytes.min(most), patience).await.map_err(PackError::unavailable)
}

/// A read that takes no longer than [`STORE_WAIT`].
pub(crate) async fn in_time<T>(read: impl Future<Output = Result<T, PackError>>) -> Result<T, PackError> {
    match tokio::time::timeout(STORE_WAIT, read).await {
        Ok(read) => read,
        Err(_) => Err(PackError::unavailable("no answer in time")),
    }
}
