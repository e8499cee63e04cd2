//! What this program does at most at once, where doing more would exhaust the machine.

use std::{sync::Arc, time::Duration};

use domain::access::SitePassword;
use secrets::passwords;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Code};

/// Uploads being received or published. Each may hold 100 MB of the spool folder.
const UPLOADS: usize = 64;
/// Password hashes. Each takes a core for tens of milliseconds, and 19 MiB.
const HASHES: usize = 2;
/// Webhooks being received. Each may hold [`WEBHOOK_SMALL_BYTES`] of memory...
const WEBHOOKS: usize = 64;
/// ...and so many of them all that is allowed.
const LARGE_WEBHOOKS: usize = 2;
/// A webhook up to here is small.
pub const WEBHOOK_SMALL_BYTES: usize = 1024 * 1024;
/// Pushes being fetched and published. Each may hold 250 MB of the spool folder.
const PUSHES: usize = 3;
/// How long a request waits for its turn.
const TURN_WAIT: Duration = Duration::from_secs(10);

/// The bounds. Clones share them.
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
    /// A turn to upload, until it is dropped.
    pub async fn upload(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        turn(&self.uploads).await
    }

    /// A turn to receive a webhook, until it is dropped.
    pub async fn webhook(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        turn(&self.webhooks).await
    }

    /// A turn to receive more than [`WEBHOOK_SMALL_BYTES`] of one.
    pub async fn large_webhook(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        turn(&self.large_webhooks).await
    }

    /// A turn to deploy a push, if there is one now.
    pub fn push(&self) -> Option<OwnedSemaphorePermit> {
        self.pushes.clone().try_acquire_owned().ok()
    }

    /// Hashes a site's password, off the runtime's threads.
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
