//! What the edge keeps of packs: manifests and small bodies, each bounded by bytes, each loaded by one flight.

use std::sync::Arc;

use bytes::Bytes;
use common::{domain::DeploymentId, store::Span};
use moka::future::Cache;
use tokio::sync::Semaphore;

use super::{
    pack::Pack,
    packs::{PackError, Packs, in_time},
};
use crate::limits::{BODY_CACHE_BYTES, LOADS_AT_ONCE, MANIFEST_CACHE_BYTES};

/// Bytes that an entry takes beside its body, about.
const ENTRY_WEIGHT: u32 = 128;

/// The memory of packs.
pub(crate) struct Memory {
    pub(crate) packs: Arc<dyn Packs>,
    manifests: Cache<DeploymentId, Arc<Pack>>,
    /// By deployment (its id as a number: nothing to allocate for a look-up) and offset in its data.
    bodies: Cache<(u128, u64), Bytes>,
    loads: Semaphore,
}

impl Memory {
    /// Empty.
    pub(crate) fn new(packs: Arc<dyn Packs>) -> Self {
        Self {
            packs,
            manifests: Cache::builder()
                .max_capacity(MANIFEST_CACHE_BYTES)
                .weigher(|_, pack: &Arc<Pack>| pack.weight())
                .build(),
            bodies: Cache::builder()
                .max_capacity(BODY_CACHE_BYTES)
                .weigher(|_, body: &Bytes| u32::try_from(body.len()).unwrap_or(u32::MAX).saturating_add(ENTRY_WEIGHT))
                .build(),
            loads: Semaphore::new(LOADS_AT_ONCE),
        }
    }

    /// A deployment's pack.
    pub(crate) async fn pack(&self, id: &DeploymentId) -> Result<Arc<Pack>, PackError> {
        if let Some(pack) = self.manifests.get(id).await {
            return Ok(pack);
        }
        let load = async {
            let manifest = self.load(self.packs.manifest(id)).await?;
            Ok(Arc::new(Pack::new(id.clone(), manifest)))
        };
        self.manifests.try_get_with_by_ref(id, load).await.map_err(|error: Arc<PackError>| (*error).clone())
    }

    /// A small body of a pack, whole.
    pub(crate) async fn body(&self, pack: &Pack, span: Span) -> Result<Bytes, PackError> {
        if span.len == 0 {
            return Ok(Bytes::new());
        }
        let key = (pack.number, span.offset);
        if let Some(body) = self.bodies.get(&key).await {
            return Ok(body);
        }
        let load = self.load(self.packs.read(&pack.id, span.offset, span.len));
        self.bodies.try_get_with(key, load).await.map_err(|error: Arc<PackError>| (*error).clone())
    }

    async fn load<T>(&self, read: impl Future<Output = Result<T, PackError>>) -> Result<T, PackError> {
        in_time(async {
            let _turn = self.loads.acquire().await.map_err(PackError::unavailable)?;
            read.await
        })
        .await
    }
}
