//! Bounds on work that runs concurrently, where more of it would exhaust the machine.

use std::{sync::Arc, time::Duration};

use domain::access::SitePassword;
use secrets::passwords;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Code};

/// Most uploads being received or published. Each may hold 100 MB of the spool folder.
const UPLOADS: usize = 64;
/// Most passwords being hashed. Each takes a core for tens of milliseconds, and 19 MiB.
const HASHES: usize = 2;
/// Most webhooks being received. Each may hold [`WEBHOOK_SMALL_BYTES`] of memory.
const WEBHOOKS: usize = 64;
/// Most webhooks being received that are larger than [`WEBHOOK_SMALL_BYTES`].
const LARGE_WEBHOOKS: usize = 2;
/// The size up to which a webhook counts as small.
pub const WEBHOOK_SMALL_BYTES: usize = 1024 * 1024;
/// Most pushes being fetched and published. Each may hold 250 MB of the spool folder.
const PUSHES: usize = 3;
/// Longest wait of a request for a permit before it is refused.
const TURN_WAIT: Duration = Duration::from_secs(10);

/// The bounds, as semaphores. Clones share them.
#[derive(Debug, Clone)]
pub struct Bounds {
    uploads: Arc<Semaphore>,
    hashes: Arc<Semaphore>,
    webhooks: Arc<Semaphore>,
    large_webhooks: Arc<Semaphore>,
    pushes: Arc<Semaphore>,
}

impl Default for Bounds {
    fn default() -> Self {
        let of = |turns| Arc::new(Semaphore::new(turns));
        Self {
            uploads: of(UPLOADS),
            hashes: of(HASHES),
            webhooks: of(WEBHOOKS),
            large_webhooks: of(LARGE_WEBHOOKS),
            pushes: of(PUSHES),
        }
    }
}

impl Bounds {
    /// Waits for a permit to upload, which lasts until it is dropped.
    pub async fn upload(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        turn(&self.uploads).await
    }

    /// Waits for a permit to receive a webhook, which lasts until it is dropped.
    pub async fn webhook(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        turn(&self.webhooks).await
    }

    /// Waits for a permit to receive more than [`WEBHOOK_SMALL_BYTES`] of a webhook.
    pub async fn large_webhook(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        turn(&self.large_webhooks).await
    }

    /// Takes a permit to deploy a push, if one is free.
    pub fn push(&self) -> Option<OwnedSemaphorePermit> {
        self.pushes.clone().try_acquire_owned().ok()
    }

    /// Hashes a site's password on a blocking thread, once a permit is free.
    pub async fn hash(&self, password: SitePassword) -> Result<String, ApiError> {
        let turn = turn(&self.hashes).await?;
        let hashing = tokio::task::spawn_blocking(move || {
            let hash = passwords::hash(&password);
            drop(turn);
            hash
        });
        hashing.await.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }
}

async fn turn(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    match tokio::time::timeout(TURN_WAIT, semaphore.clone().acquire_owned()).await {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(closed)) => Err(ApiError::internal(closed)),
        Err(_) => Err(ApiError::new(Code::Busy, "Too much is going on at once; please try again in a moment.")
            .retry_after(TURN_WAIT)),
    }
}
