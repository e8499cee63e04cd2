//! What the edge keeps of packs: manifests and small bodies, each bounded by bytes, each loaded by one flight.

use std::sync::Arc;

use bytes::Bytes;
use domain::DeploymentId;
use packs::Span;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use tokio::sync::Semaphore;

use super::{
    pack::Pack,
    packs::{PackError, Packs, in_time},
};
use crate::{
    limits::{
        BODY_CACHE_BYTES, CACHE_SHARDS, LOADS_AT_ONCE, MANIFEST_CACHE_BYTES, USUAL_BODY_BYTES, USUAL_MANIFEST_BYTES,
    },
    metrics,
};

/// Bytes that an entry takes beside its body, about.
const ENTRY_WEIGHT: u64 = 128;

/// The memory of packs. Asked at every request, hence caches whose look-up writes nothing but one mark.
pub(crate) struct PackCache {
    pub(crate) packs: Arc<dyn Packs>,
    manifests: Cache<DeploymentId, Arc<Pack>, ByBytes>,
    /// By deployment (its id as a number: nothing to allocate for a look-up) and offset in its data.
    bodies: Cache<(u128, u64), Bytes, ByBytes>,
    loads: Semaphore,
}

/// The weight of an entry: the bytes that it takes.
#[derive(Clone)]
struct ByBytes;

impl Weighter<DeploymentId, Arc<Pack>> for ByBytes {
    fn weight(&self, _: &DeploymentId, pack: &Arc<Pack>) -> u64 {
        u64::from(pack.weight()) + ENTRY_WEIGHT
    }
}

impl Weighter<(u128, u64), Bytes> for ByBytes {
    fn weight(&self, _: &(u128, u64), body: &Bytes) -> u64 {
        body.len() as u64 + ENTRY_WEIGHT
    }
}

fn cache<K: Eq + std::hash::Hash, V: Clone>(bytes: u64, usual: u64) -> Cache<K, V, ByBytes>
where
    ByBytes: Weighter<K, V>,
{
    let entries = usize::try_from(bytes / usual).unwrap_or(usize::MAX);
    let mut options = OptionsBuilder::new();
    options.shards(CACHE_SHARDS).estimated_items_capacity(entries).weight_capacity(bytes);
    match options.build() {
        Ok(options) => {
            Cache::with_options(options, ByBytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
        }
        // Never: both figures are given.
        Err(_) => Cache::with_weighter(entries, bytes, ByBytes),
    }
}

impl PackCache {
    /// Empty.
    pub(crate) fn new(packs: Arc<dyn Packs>) -> Self {
        Self {
            packs,
            manifests: cache(MANIFEST_CACHE_BYTES, USUAL_MANIFEST_BYTES),
            bodies: cache(BODY_CACHE_BYTES, USUAL_BODY_BYTES),
            loads: Semaphore::new(LOADS_AT_ONCE),
        }
    }

    /// A deployment's pack.
    pub(crate) async fn pack(&self, id: &DeploymentId) -> Result<Arc<Pack>, PackError> {
        if let Some(pack) = self.manifests.get(id) {
            return Ok(pack);
        }
        let load = async {
            let manifest = self.load(self.packs.manifest(id)).await?;
            Ok(Arc::new(Pack::new(id.clone(), manifest)))
        };
        Box::pin(in_time(self.manifests.get_or_insert_async(id, load))).await
    }

    /// A small body of a pack, whole.
    pub(crate) async fn body(&self, pack: &Pack, span: Span) -> Result<Bytes, PackError> {
        if span.len == 0 {
            return Ok(Bytes::new());
        }
        let key = (pack.number, span.offset);
        let found = self.bodies.get(&key);
        metrics::body(found.is_some());
        if let Some(body) = found {
            return Ok(body);
        }
        let load = self.load(self.packs.read(&pack.id, span.offset, span.len));
        Box::pin(in_time(self.bodies.get_or_insert_async(&key, load))).await
    }

    /// One read. Whoever waits for another's read, and sees it fail, reads next: so the whole wait is bounded, not this.
    async fn load<T>(&self, read: impl Future<Output = Result<T, PackError>>) -> Result<T, PackError> {
        let _turn = self.loads.acquire().await.map_err(PackError::unavailable)?;
        read.await
    }
}
