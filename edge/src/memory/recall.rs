//! The read-through memory: what is remembered of a key, else one read of it.
//!
//! A key that is not remembered is read by one reader; the others that ask for the same key wait, and find what was read.
//! A read that a change overtook is repeated, and one that is of another epoch of the database; one that failed is not repeated for a moment, for this key alone. Readers
//! of different keys wait for each other only when [`Bounds::reads`] are under way, or those that are one client's share;
//! then the clients take turns.
//!
//! Keys that have a value and keys that have none are remembered apart, so that a flood of made-up keys evicts no real one.
//! A remembered value ends by a change ([`super::marks`]), by age where it has a bound, or when there is no more room.

use std::{
    collections::HashMap,
    hash::{Hash, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairness::{Client, Turns};
use quick_cache::{Equivalent, UnitWeighter, Weighter, sync::DefaultLifecycle};
use tokio::time::{Instant, timeout};

use super::marks::{Marks, Reading};

/// The hasher is keyed: strangers choose host names and tokens.
type Cache<K, V, W = UnitWeighter> = quick_cache::sync::Cache<K, V, W, RandomState>;

/// The bounds of one memory.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of the keys that are remembered with their value, by what their reads say.
    pub present: u64,
    /// Bytes of one of them, usually.
    pub usual: u64,
    /// Keys remembered to have no value.
    pub absent: usize,
    /// Age at which a remembered value is read anew although nothing changed.
    pub present_life: Option<Duration>,
    /// Age at which a remembered lack of a value is read anew although nothing changed.
    pub absent_life: Option<Duration>,
    /// Whether what is remembered ends when no change could be looked up for too long ([`Marks::has_lapsed`]).
    pub can_lapse: bool,
    /// Keys that are being read or waited for at the same time. Beyond it askers are refused.
    pub flights: usize,
    /// Askers of one client that wait for a read. Beyond it they are refused.
    pub askers_per_client: usize,
    /// Reads under way at the same time. Beyond it readers wait for a turn.
    pub reads: usize,
    /// Reads under way at the same time for one client.
    pub reads_per_client: usize,
    /// Longest wait of one asker, for the key's turn, its client's and the read.
    pub wait: Duration,
    /// Reads of one key that may each be overtaken by a change before the asker is refused.
    pub tries: usize,
    /// Time after a failed read in which the same key is not read again.
    pub back_off: Duration,
    /// Keys whose failed read is remembered.
    pub failures: usize,
}

/// The knowledge that memory has of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recollection<V> {
    /// The key has this value.
    Present(V),
    /// The key has no value.
    Absent,
    /// Memory holds nothing of the key that is current.
    Unknown,
}

/// Why a key's value is not known. The asker may come again soon.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecallError {
    /// The source cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(Arc<str>),
    /// The key changes faster than it can be read.
    #[error("it kept changing while it was read")]
    Unsettled,
    /// As many keys as may be are being read.
    #[error("too many others are being read")]
    Busy,
    /// The asker has asked for too many keys that are nobody's, and is to wait so long. Nothing was read.
    #[error("the client asks for too many that are nobody's")]
    TooManyUnknown(Duration),
}

/// The result of one read of a key.
pub(super) struct Read<K, V> {
    /// The key to remember it by. Nearly always the one that was asked for.
    pub(super) key: K,
    /// The value, if there is one.
    pub(super) value: Option<V>,
    /// As of when, and what overtakes it.
    pub(super) reading: Reading,
    /// Bytes that are taken while key and value are remembered.
    pub(super) bytes: u64,
}

/// A read-through memory of `K` → `V`.
pub struct Recall<K, V> {
    marks: Arc<Marks>,
    bounds: Bounds,
    present: Cache<K, Remembered<V>, ByBytes>,
    absent: Cache<K, Remembered<()>>,
    failures: Cache<K, Instant>,
    /// The turn of each key that is being read. An entry is there for as long as somebody waits for it.
    flights: Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>,
    /// The askers that wait for a read.
    askers: Turns<Client>,
    reads: Turns<Client>,
}

#[derive(Clone)]
struct Remembered<V> {
    value: V,
    reading: Reading,
    expires_at: Option<Instant>,
    bytes: u64,
}

impl<V> Remembered<V> {
    fn new(value: V, reading: Reading, bytes: u64, life: Option<Duration>) -> Self {
        Self { value, reading, bytes, expires_at: life.map(|life| Instant::now() + life) }
    }
}

/// The weight of an entry: the bytes that it takes.
#[derive(Clone)]
struct ByBytes;

impl<K, V> Weighter<K, Remembered<V>> for ByBytes {
    fn weight(&self, _: &K, known: &Remembered<V>) -> u64 {
        known.bytes
    }
}

impl RecallError {
    /// A database that failed while it was asked for `what`.
    pub(super) fn database(what: &'static str, error: &sqlx::Error) -> Self {
        crate::metrics::postgres_failed(what, error);
        Self::Unreadable(format!("{what}: {error}").into())
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Recall<K, V> {
    /// An empty memory, emptied by the changes that reach `marks`.
    pub(super) fn new(marks: Arc<Marks>, bounds: Bounds) -> Self {
        Self {
            marks,
            bounds,
            present: cache(
                usize::try_from(bounds.present / bounds.usual).unwrap_or(usize::MAX),
                bounds.present,
                ByBytes,
            ),
            absent: cache(bounds.absent, bounds.absent as u64, UnitWeighter),
            failures: cache(bounds.failures, bounds.failures as u64, UnitWeighter),
            flights: Mutex::default(),
            askers: Turns::new(fairness::Bounds {
                // In all they are bounded by the keys that they ask for.
                total: usize::MAX,
                share: bounds.askers_per_client,
                waiting: 0,
                waiting_share: 0,
            }),
            reads: Turns::new(fairness::Bounds {
                total: bounds.reads,
                share: bounds.reads_per_client,
                waiting: bounds.flights,
                waiting_share: bounds.askers_per_client,
            }),
        }
    }

    /// Bytes of the keys that are remembered with their value.
    pub(super) fn bytes(&self) -> u64 {
        self.present.weight()
    }

    /// Returns what is remembered of `key`. Reads nothing.
    pub(super) fn remembered<Q>(&self, key: &Q) -> Recollection<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if (self.bounds.can_lapse && self.marks.has_lapsed()) || !self.marks.awake().is_awake() {
            return Recollection::Unknown;
        }
        if let Some(known) = self.present.get(key).filter(|known| self.is_current(known)) {
            return Recollection::Present(known.value);
        }
        match self.absent.get(key) {
            Some(known) if self.is_current(&known) => Recollection::Absent,
            _ => Recollection::Unknown,
        }
    }

    /// The value remembered for `key`, if it is current and no change of `name` is newer than it.
    pub(super) fn remembered_for<Q>(&self, key: &Q, name: &str) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let known = self.present.get(key).filter(|_| self.marks.awake().is_awake())?;
        (self.is_current(&known) && self.marks.is_untouched(&known.reading, name)).then_some(known.value)
    }

    /// The last value of `key` that is still in memory, current or not.
    pub(super) fn last_known<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.present.get(key).map(|known| known.value)
    }

    /// The value of `key` for `asker`: remembered, or read by `read`, which is told whether a former read was overtaken by a
    /// change or was of another epoch.
    pub(super) async fn find<R>(
        &self,
        key: &K,
        asker: Client,
        read: impl FnMut(bool) -> R,
    ) -> Result<Option<V>, RecallError>
    where
        R: Future<Output = Result<Read<K, V>, RecallError>>,
    {
        self.find_by(key, asker, || self.remembered(key), read).await
    }

    /// Does what [`Self::find`] does for a key that may also be known by another one: `look` says what memory holds.
    pub(super) async fn find_by<R>(
        &self,
        key: &K,
        asker: Client,
        look: impl Fn() -> Recollection<V>,
        read: impl FnMut(bool) -> R,
    ) -> Result<Option<V>, RecallError>
    where
        R: Future<Output = Result<Read<K, V>, RecallError>>,
    {
        match look() {
            Recollection::Present(value) => Ok(Some(value)),
            Recollection::Absent => Ok(None),
            Recollection::Unknown => timeout(self.bounds.wait, self.read_in_turn(key, asker, look, read))
                .await
                .unwrap_or_else(|_| Err(RecallError::Unreadable("timed out".into()))),
        }
    }

    async fn read_in_turn<R>(
        &self,
        key: &K,
        asker: Client,
        look: impl Fn() -> Recollection<V>,
        mut read: impl FnMut(bool) -> R,
    ) -> Result<Option<V>, RecallError>
    where
        R: Future<Output = Result<Read<K, V>, RecallError>>,
    {
        let _asker = self.askers.try_take(&asker).map_err(|_| RecallError::Busy)?;
        // Nothing of memory is believed before it is known what was missed; nothing is read either, because a copy of the
        // database may lag behind what was missed.
        self.marks.awake().woken().await;
        let flight = self.join(key)?;
        let _turn = flight.turn.lock().await;
        let _read = self.reads.take(&asker, self.bounds.wait).await.map_err(|_| RecallError::Busy)?;
        // While this one waited, others may have read the key, or tried to.
        match look() {
            Recollection::Present(value) => return Ok(Some(value)),
            Recollection::Absent => return Ok(None),
            Recollection::Unknown => {}
        }
        if self.failures.get(key).is_some_and(|at| at.elapsed() < self.bounds.back_off) {
            return Err(RecallError::Unreadable("it failed a moment ago".into()));
        }
        let found = self.read(&mut read).await;
        // Who is refused says nothing of the key, which another may read at once.
        if !matches!(found, Ok(_) | Err(RecallError::TooManyUnknown(_))) {
            self.failures.insert(key.clone(), Instant::now());
        }
        found
    }

    async fn read<R>(&self, read: &mut impl FnMut(bool) -> R) -> Result<Option<V>, RecallError>
    where
        R: Future<Output = Result<Read<K, V>, RecallError>>,
    {
        for tried in 0..self.bounds.tries {
            let Read { key, value, reading, bytes } = read(tried > 0).await?;
            if Marks::is_foreign(&reading) {
                // A copy may be of a former epoch. When Postgres itself is in another than we are, that has to be settled first: what
                // was lost, or is new, is not known before.
                if tried > 0 {
                    self.marks.settle_epoch().await;
                }
                continue;
            }
            self.remember(key, value.clone(), reading, bytes);
            // What a change overtook must not be served either.
            if self.marks.is_current(&reading) {
                return Ok(value);
            }
        }
        Err(RecallError::Unsettled)
    }

    fn remember(&self, key: K, value: Option<V>, reading: Reading, bytes: u64) {
        match value {
            Some(value) => self.present.insert(key, Remembered::new(value, reading, bytes, self.bounds.present_life)),
            None => self.absent.insert(key, Remembered::new((), reading, bytes, self.bounds.absent_life)),
        }
    }

    fn is_current<T>(&self, known: &Remembered<T>) -> bool {
        self.marks.is_current(&known.reading) && known.expires_at.is_none_or(|at| Instant::now() < at)
    }

    fn join<'r>(&'r self, key: &'r K) -> Result<Flight<'r, K>, RecallError> {
        let mut open = lock(&self.flights);
        if let Some(turn) = open.get(key) {
            return Ok(Flight { open: &self.flights, key, turn: turn.clone() });
        }
        if open.len() >= self.bounds.flights {
            return Err(RecallError::Busy);
        }
        let turn = Arc::<tokio::sync::Mutex<()>>::default();
        open.insert(key.clone(), turn.clone());
        Ok(Flight { open: &self.flights, key, turn })
    }
}

/// One asker's part in the reading of a key. The last one to leave takes the entry along.
struct Flight<'r, K: Eq + Hash> {
    open: &'r Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>,
    key: &'r K,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<K: Eq + Hash> Drop for Flight<'_, K> {
    fn drop(&mut self) {
        let mut open = lock(self.open);
        // The map's and this one's: nobody else can join while the map is locked.
        if Arc::strong_count(&self.turn) == 2 {
            open.remove(self.key);
        }
    }
}

fn cache<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone>(
    entries: usize,
    weight: u64,
    weighter: W,
) -> Cache<K, V, W> {
    quick_cache::sync::Cache::with(entries, weight, weighter, RandomState::new(), DefaultLifecycle::default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
