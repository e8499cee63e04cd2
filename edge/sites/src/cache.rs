//! Caches for packs: manifests and small bodies. Each is bounded in bytes, and concurrent misses share one load.

use std::sync::Arc;

use super::{
    copies::ReplicatedPacks,
    pack::{LoadedPack, PackData},
    packs::{PackError, reserve_read, with_store_timeout},
};

use bytes::Bytes;
use domain::{DeploymentId, PayingAccount};
use edge_metrics as metrics;
use fairness::{
    TurnBounds, TurnQueue,
    budget::{BudgetAccount, ByteBudget},
};
use limits::{
    BLOCK_BYTES, CACHE_SHARDS, CONCURRENT_DECODES, CONCURRENT_LOADS, CONCURRENT_MANIFEST_LOADS, DECODED_OF_ACCOUNT,
    LOAD_BYTES, LOADS_OF_ACCOUNT, LOADS_WAITING, LOADS_WAITING_OF_ACCOUNT, MANIFEST_LOADS_OF_ACCOUNT,
    MANIFEST_SHARD_BYTES, MemoryShares, STORE_WAIT, USUAL_BODY_BYTES, USUAL_MANIFEST_BYTES,
};
use packs::{Span, StoredBody};
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

/// Approximate overhead of an entry, in bytes.
const ENTRY_WEIGHT: u64 = 128;

/// The caches for packs. Every request looks them up, so a hit writes nothing but one mark.
pub(crate) struct PackCache {
    manifests: Cache<DeploymentId, Arc<LoadedPack>, EntryWeight>,
    /// Limits concurrent manifest reads, in total and per paying account.
    loads: TurnQueue<PayingAccount>,
    bodies: Arc<BodyCache>,
}

/// The cache of bodies, in blocks of [`BLOCK_BYTES`]. Each block has its own allocation, so a response that holds one
/// keeps no more than that alive, even after eviction.
pub(crate) struct BodyCache {
    pub(crate) packs: ReplicatedPacks,
    /// Keyed by deployment (its id as a number, so a lookup does not allocate) and offset in its data.
    pub(super) blocks: Cache<(u128, u64), Bytes, EntryWeight>,
    loads: TurnQueue<PayingAccount>,
    pub(super) decodings: TurnQueue<PayingAccount>,
    /// The memory account that a read is charged to until its bytes are in the cache.
    pub(super) account: BudgetAccount,
}

#[derive(Clone)]
pub(super) struct EntryWeight;

impl Weighter<DeploymentId, Arc<LoadedPack>> for EntryWeight {
    fn weight(&self, _: &DeploymentId, pack: &Arc<LoadedPack>) -> u64 {
        pack.weight() + ENTRY_WEIGHT
    }
}

impl Weighter<(u128, u64), Bytes> for EntryWeight {
    fn weight(&self, _: &(u128, u64), body: &Bytes) -> u64 {
        body.len() as u64 + ENTRY_WEIGHT
    }
}

fn cache<K: Eq + std::hash::Hash, V: Clone>(bytes: u64, usual: u64, shards: usize) -> Cache<K, V, EntryWeight>
where
    EntryWeight: Weighter<K, V>,
{
    let entries = usize::try_from(bytes / usual).unwrap_or(usize::MAX);
    let mut options = OptionsBuilder::new();
    options.shards(shards).estimated_items_capacity(entries).weight_capacity(bytes);
    match options.build() {
        Ok(options) => {
            Cache::with_options(options, EntryWeight, DefaultHashBuilder::default(), DefaultLifecycle::default())
        }
        // Unreachable: both required options are set.
        Err(_) => Cache::with_weighter(entries, bytes, EntryWeight),
    }
}

/// Creates turns with `total` slots, at most `share` of them for one account.
fn account_turns(total: usize, share: usize) -> TurnQueue<PayingAccount> {
    TurnQueue::new(TurnBounds { total, share, waiting: LOADS_WAITING, waiting_share: LOADS_WAITING_OF_ACCOUNT })
}

impl PackCache {
    /// Creates empty caches with the sizes in `shares`. Body reads are charged to `budget`.
    pub(crate) fn new(packs: ReplicatedPacks, shares: &MemoryShares, budget: &ByteBudget) -> Self {
        let manifest_shards = usize::try_from(shares.manifests / MANIFEST_SHARD_BYTES).unwrap_or(CACHE_SHARDS);
        Self {
            manifests: cache(shares.manifests, USUAL_MANIFEST_BYTES, manifest_shards.clamp(1, CACHE_SHARDS)),
            loads: account_turns(CONCURRENT_MANIFEST_LOADS, MANIFEST_LOADS_OF_ACCOUNT),
            bodies: Arc::new(BodyCache {
                packs,
                blocks: cache(shares.bodies, USUAL_BODY_BYTES, CACHE_SHARDS),
                loads: account_turns(CONCURRENT_LOADS, LOADS_OF_ACCOUNT),
                decodings: account_turns(CONCURRENT_DECODES, DECODED_OF_ACCOUNT),
                account: budget.common_account(),
            }),
        }
    }

    /// Returns the pack of a deployment; a read is charged to `owner`. Callers do not hold the pack across an await: an
    /// evicted pack would be counted nowhere in the meantime.
    pub(crate) async fn pack(&self, id: &DeploymentId, owner: &PayingAccount) -> Result<Arc<LoadedPack>, PackError> {
        if let Some(pack) = self.manifests.get(id) {
            return Ok(pack);
        }
        // A caller that waits for another's read and sees it fail reads next, so the timeout covers the whole wait.
        let load = async {
            let _turn = self.loads.take(owner, STORE_WAIT).await.map_err(PackError::unavailable)?;
            // The grant is released once the pack is in the manifest cache, which counts it from then on.
            let (manifest, _grant) = self.bodies.packs.manifest(id, &self.bodies.account).await?;
            Ok(Arc::new(LoadedPack::new((id.clone(), owner.clone()), manifest, self.bodies.clone())))
        };
        Box::pin(with_store_timeout(self.manifests.get_or_insert_async(id, load))).await
    }

    #[cfg(test)]
    pub(super) fn forget_manifests(&self) {
        self.manifests.clear();
    }

    /// Evicts every body.
    #[cfg(test)]
    pub(super) fn forget_bodies(&self) {
        self.bodies.blocks.clear();
    }

    pub(crate) fn memory_used(&self) -> [u64; 2] {
        [self.bodies.blocks.weight(), self.manifests.weight()]
    }
}

impl BodyCache {
    /// Returns the block of the body `whole` that contains `offset` of the pack's data, and its start within the body.
    pub(crate) fn block_at(whole: Span, offset: u64) -> (Span, u64) {
        let at = offset.saturating_sub(whole.offset);
        let start = at - at % BLOCK_BYTES as u64;
        (Span { offset: whole.offset + start, len: (whole.len - start).min(BLOCK_BYTES as u64) }, start)
    }

    pub(crate) fn cached_block(&self, data: &PackData, block: Span) -> Option<Bytes> {
        let found = self.blocks.get(&(data.number, block.offset));
        metrics::body(found.is_some());
        found
    }

    /// Returns the block at byte `start` of the small body `whole`, cached or read together with those that follow.
    pub(crate) async fn block(&self, data: &PackData, whole: &StoredBody, start: u64) -> Result<Bytes, PackError> {
        let key = (data.number, whole.span.offset + start);
        let load = async {
            let _turn = self.loads.take(&data.owner, STORE_WAIT).await.map_err(PackError::unavailable)?;
            // A body without block digests is read whole, so that it can be checked.
            let (from, len) = if whole.is_checked_by_block() {
                (start, (whole.span.len - start).min(LOAD_BYTES))
            } else {
                (0, whole.span.len)
            };
            let _grant = reserve_read(len, &self.account).await?;
            let read = self.packs.read(&data.id, whole, from, len).await?;
            let mut first = Bytes::new();
            let mut offset = whole.span.offset + from;
            // Copied, because a slice would keep the whole read alive.
            for block in read.chunks(BLOCK_BYTES).map(Bytes::copy_from_slice) {
                if offset == key.1 {
                    first = block;
                } else {
                    self.blocks.insert((key.0, offset), block);
                }
                offset += BLOCK_BYTES as u64;
            }
            Ok(first)
        };
        Box::pin(with_store_timeout(self.blocks.get_or_insert_async(&key, load))).await
    }
}
