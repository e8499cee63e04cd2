//! The source of packs: the store, or a test's memory.

use std::{future::Future, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use domain::DeploymentId;
use fairness::budget::{BudgetAccount, ByteGrant, WaitLimits};
use limits::{FLIGHT_WAIT, MANIFEST_FLIGHT_DIVISOR, STORE_WAIT};
use packs::{Manifest, PackStore, StoreError, manifest::GuardAccount as PathAccount};

/// Reads packs. Implemented by [`packs::PackStore`], and in memory for tests.
#[async_trait]
pub trait PackSource: Send + Sync + 'static {
    /// Reads the manifest of a pack. The grant for the memory needed is drawn from `account` before the read.
    async fn manifest(&self, id: &DeploymentId, account: &BudgetAccount) -> Result<(Manifest, ByteGrant), PackError>;
    /// Reads exactly `len` bytes of a pack's data from `offset` on.
    async fn read(&self, id: &DeploymentId, offset: u64, len: u64) -> Result<Bytes, PackError>;
    /// Returns whether each read is a network request, so that few large reads are better than many small ones.
    fn is_remote(&self) -> bool;
}

/// The reason a pack could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PackError {
    /// The pack does not exist: its deployment was deleted, or the store has lost it.
    #[error("there is no such pack")]
    Missing,
    /// The deployment exists, but its pack does not.
    #[error("its pack is lost")]
    Lost,
    /// The store has different or fewer bytes than were written.
    #[error("its pack is damaged: {0}")]
    Damaged(Arc<str>),
    /// The store does not respond.
    #[error("the store failed: {0}")]
    Unavailable(Arc<str>),
    /// The response is restricted to some of these accounts, and the request has not proved any of them yet.
    #[error("its paths are guarded")]
    Guarded(Arc<[PathAccount]>),
}

impl PackError {
    pub(crate) fn unavailable(why: impl std::fmt::Display) -> Self {
        Self::Unavailable(why.to_string().into())
    }

    /// Returns whether the pack is at fault, rather than the path to it.
    pub(crate) fn is_pack_fault(&self) -> bool {
        !matches!(self, Self::Unavailable(_) | Self::Guarded(_))
    }
}

#[async_trait]
impl PackSource for PackStore {
    async fn manifest(&self, id: &DeploymentId, account: &BudgetAccount) -> Result<(Manifest, ByteGrant), PackError> {
        let stored = self.open_manifest(id).await?;
        let grant = reserve_read(stored.read_bytes(), account).await?;
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

/// Draws memory for a read, capped at the most that one read may have.
pub(crate) async fn reserve_read(bytes: u64, account: &BudgetAccount) -> Result<ByteGrant, PackError> {
    let most = account.limit() / MANIFEST_FLIGHT_DIVISOR;
    let patience = WaitLimits { own: FLIGHT_WAIT, others: FLIGHT_WAIT };
    account.take(bytes.min(most), patience).await.map_err(PackError::unavailable)
}

/// Fails a read that takes longer than [`STORE_WAIT`].
pub(crate) async fn with_store_timeout<T>(read: impl Future<Output = Result<T, PackError>>) -> Result<T, PackError> {
    match tokio::time::timeout(STORE_WAIT, read).await {
        Ok(read) => read,
        Err(_) => Err(PackError::unavailable("no answer in time")),
    }
}
