//! What the edge keeps of packs: manifests and small bodies, each bounded by bytes, each loaded by one flight.

use std::sync::Arc;

use super::{
    copies::Copies,
    pack::{Pack, PackData},
    packs::{PackError, in_time, room_for},
};
use crate::{
    limits::{
        BLOCK_BYTES, CACHE_SHARDS, DECODED_AT_ONCE, DECODED_OF_ACCOUNT, LOAD_BYTES, LOADS_AT_ONCE, LOADS_OF_ACCOUNT,
        LOADS_WAITING, LOADS_WAITING_OF_ACCOUNT, MANIFEST_LOADS_AT_ONCE, MANIFEST_LOADS_OF_ACCOUNT,
        MANIFEST_SHARD_BYTES, STORE_WAIT, Shares, USUAL_BODY_BYTES, USUAL_MANIFEST_BYTES,
    },
    metrics,
};
use bytes::Bytes;
use domain::{DeploymentId, PayingAccount};
use fairness::{
    Bounds, Turns,
    budget::{Account, Budget},
};
use packs::{Span, StoredBody};
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

/// Bytes that an entry takes beside its body, about.
const ENTRY_WEIGHT: u64 = 128;

/// The memory of packs. Asked at every request, hence caches whose look-up writes nothing but one mark.
pub(crate) struct PackCache {
    manifests: Cache<DeploymentId, Arc<Pack>, ByBytes>,
    /// Turns of reads, of the accounts whose sites they are.
    loads: Turns<PayingAccount>,
    bodies: Arc<Bodies>,
}

/// The memory of bodies, in blocks of [`BLOCK_BYTES`]. Each has memory of its own, so that an answer which holds one holds no
/// more than that, also when the block is not remembered any longer.
pub(crate) struct Bodies {
    pub(crate) packs: Copies,
    /// By deployment (its id as a number: nothing to allocate for a look-up) and offset in its data.
    pub(super) blocks: Cache<(u128, u64), Bytes, ByBytes>,
    /// Turns of reads, of the accounts whose sites they are.
    loads: Turns<PayingAccount>,
    /// Turns of bodies that are decoded.
    pub(super) decodings: Turns<PayingAccount>,
    /// The account that a read is charged to until its bytes have become blocks.
    pub(super) account: Account,
}

/// The weight of an entry: the bytes that it takes.
#[derive(Clone)]
struct ByBytes;

impl Weighter<DeploymentId, Arc<Pack>> for ByBytes {
    fn weight(&self, _: &DeploymentId, pack: &Arc<Pack>) -> u64 {
        pack.weight() + ENTRY_WEIGHT
    }
}

impl Weighter<(u128, u64), Bytes> for ByBytes {
    fn weight(&self, _: &(u128, u64), body: &Bytes) -> u64 {
        body.len() as u64 + ENTRY_WEIGHT
    }
}

fn cache<K: Eq + std::hash::Hash, V: Clone>(bytes: u64, usual: u64, shards: usize) -> Cache<K, V, ByBytes>
where
    ByBytes: Weighter<K, V>,
{
    let entries = usize::try_from(bytes / usual).unwrap_or(usize::MAX);
    let mut options = OptionsBuilder::new();
    options.shards(shards).estimated_items_capacity(entries).weight_capacity(bytes);
    match options.build() {
        Ok(options) => {
            Cache::with_options(options, ByBytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
        }
        // Never: both figures are given.
        Err(_) => Cache::with_weighter(entries, bytes, ByBytes),
    }
}

/// So many turns in all, and of one account.
fn turns(total: usize, share: usize) -> Turns<PayingAccount> {
    Turns::new(Bounds { total, share, waiting: LOADS_WAITING, waiting_share: LOADS_WAITING_OF_ACCOUNT })
}

impl PackCache {
    /// Empty, with room as in `shares`. Reads of bodies are charged to `budget`.
    pub(crate) fn new(packs: Copies, shares: &Shares, budget: &Budget) -> Self {
        let manifest_shards = usize::try_from(shares.manifests / MANIFEST_SHARD_BYTES).unwrap_or(CACHE_SHARDS);
        Self {
            manifests: cache(shares.manifests, USUAL_MANIFEST_BYTES, manifest_shards.clamp(1, CACHE_SHARDS)),
            loads: turns(MANIFEST_LOADS_AT_ONCE, MANIFEST_LOADS_OF_ACCOUNT),
            bodies: Arc::new(Bodies {
                packs,
                blocks: cache(shares.bodies, USUAL_BODY_BYTES, CACHE_SHARDS),
                loads: turns(LOADS_AT_ONCE, LOADS_OF_ACCOUNT),
                decodings: turns(DECODED_AT_ONCE, DECODED_OF_ACCOUNT),
                account: budget.common_account(),
            }),
        }
    }

    /// The pack of a deployment, which is read at the expense of `owner`. Nobody holds one across a wait: what was evicted would be counted
    /// nowhere for as long.
    pub(crate) async fn pack(&self, id: &DeploymentId, owner: &PayingAccount) -> Result<Arc<Pack>, PackError> {
        if let Some(pack) = self.manifests.get(id) {
            return Ok(pack);
        }
        // Whoever waits for another's read, and sees it fail, reads next: so the whole wait is bounded, not one read.
        let load = async {
            let _turn = self.loads.take(owner, STORE_WAIT).await.map_err(PackError::unavailable)?;
            // Given back when the pack is there, which the memory of manifests counts from then on.
            let (manifest, _grant) = self.bodies.packs.manifest(id, &self.bodies.account).await?;
            Ok(Arc::new(Pack::new((id.clone(), owner.clone()), manifest, self.bodies.clone())))
        };
        Box::pin(in_time(self.manifests.get_or_insert_async(id, load))).await
    }

    /// Lets go of every manifest.
    #[cfg(test)]
    pub(super) fn forget_manifests(&self) {
        self.manifests.clear();
    }

    /// Evicts every body.
    #[cfg(test)]
    pub(super) fn forget_bodies(&self) {
        self.bodies.blocks.clear();
    }

    /// Bytes that bodies take, and bytes that manifests take.
    pub(crate) fn used(&self) -> [u64; 2] {
        [self.bodies.blocks.weight(), self.manifests.weight()]
    }
}

impl Bodies {
    /// The block of the body `whole` in which `offset` of the pack's data is, and where it begins in the body.
    pub(crate) fn block_at(whole: Span, offset: u64) -> (Span, u64) {
        let at = offset.saturating_sub(whole.offset);
        let start = at - at % BLOCK_BYTES as u64;
        (Span { offset: whole.offset + start, len: (whole.len - start).min(BLOCK_BYTES as u64) }, start)
    }

    /// A block, if it is in memory.
    pub(crate) fn remembered(&self, data: &PackData, block: Span) -> Option<Bytes> {
        let found = self.blocks.get(&(data.number, block.offset));
        metrics::body(found.is_some());
        found
    }

    /// The block of the small body `whole` that begins at its byte `start`: from memory, else read together with those that
    /// follow.
    pub(crate) async fn block(&self, data: &PackData, whole: &StoredBody, start: u64) -> Result<Bytes, PackError> {
        let key = (data.number, whole.span.offset + start);
        let load = async {
            let _turn = self.loads.take(&data.owner, STORE_WAIT).await.map_err(PackError::unavailable)?;
            // A body without digests of blocks is read whole, to be checked.
            let (from, len) = if whole.is_checked_by_block() {
                (start, (whole.span.len - start).min(LOAD_BYTES))
            } else {
                (0, whole.span.len)
            };
            let _grant = room_for(len, &self.account).await?;
            let read = self.packs.read(&data.id, whole, from, len).await?;
            let mut first = Bytes::new();
            let mut offset = whole.span.offset + from;
            // Copied: a part of what was read would hold all of it.
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
        Box::pin(in_time(self.blocks.get_or_insert_async(&key, load))).await
    }
}
