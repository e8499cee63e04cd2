//! The storage of the cache: an in-memory map that pingora-cache fills, reads and evicts from.
//!
//! pingora-cache's own storage is for tests only. This one counts actual bytes: those being read, cached ones, and
//! those that are evicted but still being sent. It admits only what fits into the total.

use std::{
    any::Any,
    collections::{HashMap, hash_map::Entry as Slot},
    ops::Range,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
pub(super) use memory::{ChangeMarks, ChangeReading};
use pingora::{
    cache::{
        CacheKey, CacheMeta, HitHandler, MissHandler, Storage,
        eviction::{CacheEntryId, CacheEntryKey, EvictionManager as _, lru},
        key::{CacheHashKey, HashBinary},
        storage::{HandleHit, HandleMiss, MissFinishType, PurgeOutcome, PurgeTarget, PurgeType},
        trace::SpanHandle,
    },
    http::ResponseHeader,
    prelude::{Error, ErrorType},
};
use tokio::time::Instant;

/// The eviction order: least recently used first.
pub(super) type EvictionOrder = lru::Manager<{ limits::PLATFORM_CACHE_SHARDS }>;

pub(super) struct CacheMemory {
    shards: [RwLock<HashMap<HashBinary, Arc<CachedResponse>>>; limits::PLATFORM_CACHE_SHARDS],
    evictions: EvictionOrder,
    marks: Arc<ChangeMarks>,
    held: Arc<AtomicU64>,
    share: u64,
    next: AtomicU64,
}

pub(super) struct CachedResponse {
    key: CacheEntryKey,
    headers: HeaderMap,
    body: Bytes,
    /// The state as of which it was requested, to detect a purge that overtook it; `None` if nothing can overtake it.
    reading: Option<ChangeReading>,
    /// When it expires, if changes do not end it.
    until: Option<Instant>,
    bytes: u64,
}

#[derive(Clone)]
pub(super) struct CacheAdmission {
    room: Arc<CacheRoom>,
    len: usize,
    reading: Option<ChangeReading>,
    life: Option<Duration>,
}

/// Room for a response, released with the last of its bytes.
struct CacheRoom {
    held: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for CacheRoom {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

struct ChargedBytes {
    bytes: Vec<u8>,
    _room: Arc<CacheRoom>,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl CacheMemory {
    /// Creates an empty memory of up to `share` bytes, part of it for responses being read, or evicted while sent.
    pub(super) fn new(share: u64, marks: Arc<ChangeMarks>) -> Self {
        let kept = usize::try_from(share / 100 * limits::CACHED_KEPT_PERCENT).unwrap_or(usize::MAX);
        let usual = usize::try_from(limits::USUAL_CACHED_BYTES).unwrap_or(usize::MAX);
        Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            evictions: EvictionOrder::with_capacity(kept, kept / usual / limits::PLATFORM_CACHE_SHARDS),
            marks,
            held: Arc::default(),
            share,
            next: AtomicU64::new(0),
        }
    }

    pub(super) fn evictions(&self) -> &EvictionOrder {
        &self.evictions
    }

    pub(super) fn marks(&self) -> &ChangeMarks {
        &self.marks
    }

    /// Returns the bytes held: being read, cached, or sent after their eviction.
    pub(super) fn bytes(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// Admits a response with a body of `len` bytes and `beside` bytes of headers and name, if there is room. It is
    /// cached for the given life, or for as long as its reading is current.
    pub(super) fn admit(
        &self,
        len: usize,
        beside: usize,
        (reading, life): (Option<ChangeReading>, Option<Duration>),
    ) -> Option<CacheAdmission> {
        let bytes = (len + beside) as u64 + limits::CACHED_ENTRY_BYTES;
        let room = CacheRoom { held: self.held.clone(), bytes };
        let before = self.held.fetch_add(bytes, Ordering::AcqRel);
        (before + bytes <= self.share).then(|| CacheAdmission { room: Arc::new(room), len, reading, life })
    }

    /// Returns the current response under `key`, and counts it as used.
    pub(super) fn find(&self, key: &CacheKey) -> Option<Arc<CachedResponse>> {
        let kept = self.current(&key.combined_bin())?;
        self.evictions.access(&kept.key, kept.weight(), SystemTime::UNIX_EPOCH);
        Some(kept)
    }

    fn current(&self, key: &HashBinary) -> Option<Arc<CachedResponse>> {
        let kept = self.read(key).get(key).cloned()?;
        if kept.until.is_some_and(|until| until <= Instant::now()) {
            self.remove(key, Some(&kept.key));
            return None;
        }
        let Some(reading) = &kept.reading else { return Some(kept) };
        if !self.marks.is_current(reading) {
            self.remove(key, Some(&kept.key));
            return None;
        }
        // It may have been changed while this process received no changes.
        (self.marks.awake().is_awake() && !self.marks.has_lapsed()).then_some(kept)
    }

    fn insert(&self, key: HashBinary, kept: CachedResponse) {
        let replaced = self.write(&key).insert(key, Arc::new(kept));
        if let Some(replaced) = replaced {
            self.evictions.remove((&replaced.key).into());
        }
    }

    /// Removes the response under `key`, whatever it is, or only if it is this `entry`.
    fn remove(&self, key: &HashBinary, entry: Option<&CacheEntryKey>) -> Option<Arc<CachedResponse>> {
        let mut shard = self.write(key);
        let Slot::Occupied(slot) = shard.entry(*key) else { return None };
        if entry.is_some_and(|entry| *entry != slot.get().key) {
            return None;
        }
        let removed = slot.remove();
        drop(shard);
        self.evictions.remove((&removed.key).into());
        Some(removed)
    }

    fn read(&self, key: &HashBinary) -> RwLockReadGuard<'_, HashMap<HashBinary, Arc<CachedResponse>>> {
        self.shard(key).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: &HashBinary) -> RwLockWriteGuard<'_, HashMap<HashBinary, Arc<CachedResponse>>> {
        self.shard(key).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, key: &HashBinary) -> &RwLock<HashMap<HashBinary, Arc<CachedResponse>>> {
        &self.shards[usize::from(key[0]) % limits::PLATFORM_CACHE_SHARDS]
    }
}

impl CachedResponse {
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }

    fn weight(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }
}

#[async_trait]
impl Storage for CacheMemory {
    async fn lookup(&'static self, key: &CacheKey, _: &SpanHandle) -> pingora::Result<Option<(CacheMeta, HitHandler)>> {
        let Some(kept) = self.current(&key.combined_bin()) else { return Ok(None) };
        let mut head = ResponseHeader::build(StatusCode::OK, Some(kept.headers.len()))?;
        for (name, value) in &kept.headers {
            head.append_header(name, value)?;
        }
        let rest = 0..kept.body.len();
        // The age is irrelevant: what memory returns is current.
        let meta = CacheMeta::new(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH, 0, 0, head);
        Ok(Some((meta, Box::new(CacheHit { kept, rest }))))
    }

    async fn get_miss_handler(
        &'static self,
        key: &CacheKey,
        meta: &CacheMeta,
        _: &SpanHandle,
    ) -> pingora::Result<MissHandler> {
        let not_admitted = || Error::explain(ErrorType::InternalError, "an answer is kept that was not admitted");
        let admission = meta.extensions().get::<CacheAdmission>().cloned().ok_or_else(not_admitted)?;
        let id = CacheEntryId::new(self.next.fetch_add(1, Ordering::Relaxed));
        let (headers, body) = (meta.response_header().headers.clone(), Vec::with_capacity(admission.len));
        let (hash, key) = (key.combined_bin(), CacheEntryKey::identified(key.to_compact(), id));
        Ok(Box::new(CacheMiss { memory: self, hash, key, id, headers, body, admission }))
    }

    async fn purge(
        &'static self,
        target: PurgeTarget<'_>,
        _: PurgeType,
        _: &SpanHandle,
    ) -> pingora::Result<PurgeOutcome> {
        let entry = match target {
            PurgeTarget::Active(_) => None,
            PurgeTarget::Exact(entry) => Some(entry),
        };
        let removed = self.remove(&target.key().combined_bin(), entry);
        Ok(removed.map_or(PurgeOutcome::NotFound, |removed| PurgeOutcome::Purged(removed.key.entry_id())))
    }

    /// Unused: cached responses do not age, so they are never revalidated with admin.
    async fn update_meta(&'static self, _: &CacheKey, _: &CacheMeta, _: &SpanHandle) -> pingora::Result<bool> {
        Ok(false)
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync + 'static) {
        self
    }
}

struct CacheHit {
    kept: Arc<CachedResponse>,
    rest: Range<usize>,
}

#[async_trait]
impl HandleHit for CacheHit {
    async fn read_body(&mut self) -> pingora::Result<Option<Bytes>> {
        let rest = std::mem::replace(&mut self.rest, 0..0);
        Ok((!rest.is_empty()).then(|| self.kept.body.slice(rest)))
    }

    async fn finish(
        self: Box<Self>,
        _: &'static (dyn Storage + Sync),
        _: &CacheKey,
        _: &SpanHandle,
    ) -> pingora::Result<()> {
        Ok(())
    }

    fn can_seek(&self) -> bool {
        true
    }

    fn seek(&mut self, start: usize, end: Option<usize>) -> pingora::Result<()> {
        let whole = self.kept.body.len();
        let end = end.unwrap_or(whole).min(whole);
        if start >= end {
            return Err(Error::explain(ErrorType::InternalError, "the range lies outside the body"));
        }
        self.rest = start..end;
        Ok(())
    }

    fn get_eviction_weight(&self) -> usize {
        self.kept.weight()
    }

    fn entry_id(&self) -> Option<CacheEntryId> {
        self.kept.key.entry_id()
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn as_any_mut(&mut self) -> &mut (dyn Any + Send + Sync) {
        self
    }
}

struct CacheMiss {
    memory: &'static CacheMemory,
    hash: HashBinary,
    key: CacheEntryKey,
    id: CacheEntryId,
    headers: HeaderMap,
    body: Vec<u8>,
    admission: CacheAdmission,
}

#[async_trait]
impl HandleMiss for CacheMiss {
    async fn write_body(&mut self, data: Bytes, _: bool) -> pingora::Result<()> {
        if data.len() > self.admission.len - self.body.len() {
            return Err(Error::explain(ErrorType::InternalError, "the body is longer than it said"));
        }
        self.body.extend_from_slice(&data);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> pingora::Result<MissFinishType> {
        let Self { memory, hash, key, headers, body, admission: CacheAdmission { room, len, reading, life }, .. } =
            *self;
        if body.len() != len {
            return Err(Error::explain(ErrorType::InternalError, "the body is shorter than it said"));
        }
        let bytes = room.bytes;
        let body = Bytes::from_owner(ChargedBytes { bytes: body, _room: room });
        let until = life.map(|life| Instant::now() + life);
        let kept = CachedResponse { key, headers, body, reading, until, bytes };
        let weight = kept.weight();
        memory.insert(hash, kept);
        Ok(MissFinishType::Created(weight))
    }

    fn entry_id(&self) -> Option<CacheEntryId> {
        Some(self.id)
    }
}
