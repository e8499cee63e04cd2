//! The read-through cache: returns a key's cached value, or reads it once.
//!
//! One reader reads a key that is not cached; others that request the same key wait for its result. A read is repeated
//! if a change overtook it or it is of another epoch of the database. A failed read of a key is not repeated for a
//! moment. Readers of different keys wait for each other only when [`ReadThroughLimits::reads`], or one client's share, are in
//! progress; then clients take turns.
//!
//! Keys with a value and missing keys are cached separately, so that a flood of made-up keys evicts no real one. A
//! cached value ends through a change ([`super::marks`]), through its maximum age if it has one, or through eviction.

use std::{
    collections::HashMap,
    hash::{Hash, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairness::{Client, TurnQueue};
use quick_cache::{Equivalent, UnitWeighter, Weighter, sync::DefaultLifecycle};
use tokio::time::{Instant, timeout};

use super::marks::{ChangeMarks, ChangeReading};

/// The hasher is keyed, because strangers choose host names and tokens.
type KeyedCache<K, V, W = UnitWeighter> = quick_cache::sync::Cache<K, V, W, RandomState>;

/// The limits of one cache.
#[derive(Debug, Clone, Copy)]
pub struct ReadThroughLimits {
    /// Bytes of cached values, as reported by their reads.
    pub present: u64,
    /// Usual bytes of one cached value.
    pub usual: u64,
    /// Number of cached missing keys.
    pub absent: usize,
    /// Age at which a cached value is read again although nothing changed.
    pub present_life: Option<Duration>,
    /// Age at which a missing key is read again although nothing changed.
    pub absent_life: Option<Duration>,
    /// Whether cached values end if changes could not be looked up for too long ([`ChangeMarks::has_lapsed`]).
    pub can_lapse: bool,
    /// Keys that are concurrently read or waited for. Beyond it requests fail.
    pub flights: usize,
    /// Requests of one client waiting for a read. Beyond it they fail.
    pub askers_per_client: usize,
    /// Concurrent reads. Further readers wait for a turn.
    pub reads: usize,
    /// Concurrent reads for one client.
    pub reads_per_client: usize,
    /// Maximum wait of one request, for the key's turn, its client's turn and the read.
    pub wait: Duration,
    /// Reads of one key that changes may overtake before the request fails.
    pub tries: usize,
    /// Backoff after a failed read of a key.
    pub back_off: Duration,
    /// Keys whose failed read is remembered.
    pub failures: usize,
}

/// The result of a cache lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cached<V> {
    /// The key has this value.
    Present(V),
    /// The key has no value.
    Absent,
    /// The cache holds nothing current for the key.
    Unknown,
}

/// Why a key's value is not known. The client may retry soon.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CacheReadError {
    /// The source cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(Arc<str>),
    /// The key changes faster than it can be read.
    #[error("it kept changing while it was read")]
    Unsettled,
    /// The maximum of keys is being read.
    #[error("too many others are being read")]
    Busy,
    /// The client has asked for too many unknown keys, and has to wait for this long. Nothing was read.
    #[error("the client asks for too many that are nobody's")]
    TooManyUnknown(Duration),
}

pub(super) struct SourceRead<K, V> {
    /// The key to cache it under. Nearly always the requested one.
    pub(super) key: K,
    pub(super) value: Option<V>,
    /// The position as of which it was read, and what overtakes it.
    pub(super) reading: ChangeReading,
    /// Bytes that the cached key and value take.
    pub(super) bytes: u64,
}

/// A read-through cache of `K` → `V`.
pub struct ReadThroughCache<K, V> {
    marks: Arc<ChangeMarks>,
    bounds: ReadThroughLimits,
    present: KeyedCache<K, CachedEntry<V>, EntryWeigher>,
    absent: KeyedCache<K, CachedEntry<()>>,
    failures: KeyedCache<K, Instant>,
    /// The turn of each key that is being read. An entry exists for as long as a request waits for it.
    flights: Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>,
    askers: TurnQueue<Client>,
    reads: TurnQueue<Client>,
}

#[derive(Clone)]
struct CachedEntry<V> {
    value: V,
    reading: ChangeReading,
    expires_at: Option<Instant>,
    bytes: u64,
}

impl<V> CachedEntry<V> {
    fn new(value: V, reading: ChangeReading, bytes: u64, life: Option<Duration>) -> Self {
        Self { value, reading, bytes, expires_at: life.map(|life| Instant::now() + life) }
    }
}

#[derive(Clone)]
struct EntryWeigher;

impl<K, V> Weighter<K, CachedEntry<V>> for EntryWeigher {
    fn weight(&self, _: &K, known: &CachedEntry<V>) -> u64 {
        known.bytes
    }
}

impl CacheReadError {
    /// Creates the error of a database that failed to read `what`, and counts it.
    pub(super) fn from_database(what: &'static str, error: &sqlx::Error) -> Self {
        edge_metrics::postgres_failed(what, error);
        Self::Unreadable(format!("{what}: {error}").into())
    }
}

impl<K: Eq + Hash + Clone, V: Clone> ReadThroughCache<K, V> {
    pub(super) fn new(marks: Arc<ChangeMarks>, bounds: ReadThroughLimits) -> Self {
        Self {
            marks,
            bounds,
            present: cache(
                usize::try_from(bounds.present / bounds.usual).unwrap_or(usize::MAX),
                bounds.present,
                EntryWeigher,
            ),
            absent: cache(bounds.absent, bounds.absent as u64, UnitWeighter),
            failures: cache(bounds.failures, bounds.failures as u64, UnitWeighter),
            flights: Mutex::default(),
            askers: TurnQueue::new(fairness::TurnBounds {
                // The limit of keys being read bounds their total.
                total: usize::MAX,
                share: bounds.askers_per_client,
                waiting: 0,
                waiting_share: 0,
            }),
            reads: TurnQueue::new(fairness::TurnBounds {
                total: bounds.reads,
                share: bounds.reads_per_client,
                waiting: bounds.flights,
                waiting_share: bounds.askers_per_client,
            }),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.present.weight()
    }

    /// Returns what is cached for `key`. Reads nothing.
    pub(super) fn cached<Q>(&self, key: &Q) -> Cached<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if (self.bounds.can_lapse && self.marks.has_lapsed()) || !self.marks.awake().is_awake() {
            return Cached::Unknown;
        }
        if let Some(known) = self.present.get(key).filter(|known| self.is_current(known)) {
            return Cached::Present(known.value);
        }
        match self.absent.get(key) {
            Some(known) if self.is_current(&known) => Cached::Absent,
            _ => Cached::Unknown,
        }
    }

    /// Returns the cached value of `key`, if it is current and no change of `name` is newer than it.
    pub(super) fn cached_for<Q>(&self, key: &Q, name: &str) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let known = self.present.get(key).filter(|_| self.marks.awake().is_awake())?;
        (self.is_current(&known) && self.marks.is_current_for(&known.reading, name)).then_some(known.value)
    }

    /// Returns the last value of `key` that is still in memory, current or not.
    pub(super) fn last_value<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.present.get(key).map(|known| known.value)
    }

    /// Returns the value of `key` for `asker`, from the cache or through `read`.
    ///
    /// The argument of `read` says whether a former read was overtaken by a change or was of another epoch.
    pub(super) async fn find<R>(
        &self,
        key: &K,
        asker: Client,
        read: impl FnMut(bool) -> R,
    ) -> Result<Option<V>, CacheReadError>
    where
        R: Future<Output = Result<SourceRead<K, V>, CacheReadError>>,
    {
        self.find_by(key, asker, || self.cached(key), read).await
    }

    /// Like [`Self::find`], for a key whose value may also be cached under another one: `look` does the cache lookup.
    pub(super) async fn find_by<R>(
        &self,
        key: &K,
        asker: Client,
        look: impl Fn() -> Cached<V>,
        read: impl FnMut(bool) -> R,
    ) -> Result<Option<V>, CacheReadError>
    where
        R: Future<Output = Result<SourceRead<K, V>, CacheReadError>>,
    {
        match look() {
            Cached::Present(value) => Ok(Some(value)),
            Cached::Absent => Ok(None),
            Cached::Unknown => timeout(self.bounds.wait, self.read_in_turn(key, asker, look, read))
                .await
                .unwrap_or_else(|_| Err(CacheReadError::Unreadable("timed out".into()))),
        }
    }

    async fn read_in_turn<R>(
        &self,
        key: &K,
        asker: Client,
        look: impl Fn() -> Cached<V>,
        mut read: impl FnMut(bool) -> R,
    ) -> Result<Option<V>, CacheReadError>
    where
        R: Future<Output = Result<SourceRead<K, V>, CacheReadError>>,
    {
        let _asker = self.askers.try_take(&asker).map_err(|_| CacheReadError::Busy)?;
        // After a sleep, missed changes come first: the cache is not trusted before, and a replica may lack them.
        self.marks.awake().wait_until_awake().await;
        let flight = self.join(key)?;
        let _turn = flight.turn.lock().await;
        let _read = self.reads.take(&asker, self.bounds.wait).await.map_err(|_| CacheReadError::Busy)?;
        // Others may have read the key, or failed to, while this request waited.
        match look() {
            Cached::Present(value) => return Ok(Some(value)),
            Cached::Absent => return Ok(None),
            Cached::Unknown => {}
        }
        if self.failures.get(key).is_some_and(|at| at.elapsed() < self.bounds.back_off) {
            return Err(CacheReadError::Unreadable("it failed a moment ago".into()));
        }
        let found = self.read(&mut read).await;
        // A refused client says nothing about the key, which another may read immediately.
        if !matches!(found, Ok(_) | Err(CacheReadError::TooManyUnknown(_))) {
            self.failures.insert(key.clone(), Instant::now());
        }
        found
    }

    async fn read<R>(&self, read: &mut impl FnMut(bool) -> R) -> Result<Option<V>, CacheReadError>
    where
        R: Future<Output = Result<SourceRead<K, V>, CacheReadError>>,
    {
        for tried in 0..self.bounds.tries {
            let SourceRead { key, value, reading, bytes } = read(tried > 0).await?;
            if ChangeMarks::is_foreign(&reading) {
                // A replica may be of a former epoch. If Postgres itself is in another epoch than we are, settle that
                // first: only then is it known what was lost, or is new.
                if tried > 0 {
                    self.marks.settle_epoch().await;
                }
                continue;
            }
            self.remember(key, value.clone(), reading, bytes);
            // An overtaken value must not be served either.
            if self.marks.is_current(&reading) {
                return Ok(value);
            }
        }
        Err(CacheReadError::Unsettled)
    }

    fn remember(&self, key: K, value: Option<V>, reading: ChangeReading, bytes: u64) {
        match value {
            Some(value) => self.present.insert(key, CachedEntry::new(value, reading, bytes, self.bounds.present_life)),
            None => self.absent.insert(key, CachedEntry::new((), reading, bytes, self.bounds.absent_life)),
        }
    }

    fn is_current<T>(&self, known: &CachedEntry<T>) -> bool {
        self.marks.is_current(&known.reading) && known.expires_at.is_none_or(|at| Instant::now() < at)
    }

    fn join<'r>(&'r self, key: &'r K) -> Result<KeyFlight<'r, K>, CacheReadError> {
        let mut open = lock(&self.flights);
        if let Some(turn) = open.get(key) {
            return Ok(KeyFlight { open: &self.flights, key, turn: turn.clone() });
        }
        if open.len() >= self.bounds.flights {
            return Err(CacheReadError::Busy);
        }
        let turn = Arc::<tokio::sync::Mutex<()>>::default();
        open.insert(key.clone(), turn.clone());
        Ok(KeyFlight { open: &self.flights, key, turn })
    }
}

/// One request's part in reading a key. The last one removes the entry.
struct KeyFlight<'r, K: Eq + Hash> {
    open: &'r Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>,
    key: &'r K,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<K: Eq + Hash> Drop for KeyFlight<'_, K> {
    fn drop(&mut self) {
        let mut open = lock(self.open);
        // The map's reference and this one: no other request can join while the map is locked.
        if Arc::strong_count(&self.turn) == 2 {
            open.remove(self.key);
        }
    }
}

fn cache<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone>(
    entries: usize,
    weight: u64,
    weighter: W,
) -> KeyedCache<K, V, W> {
    quick_cache::sync::Cache::with(entries, weight, weighter, RandomState::new(), DefaultLifecycle::default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
