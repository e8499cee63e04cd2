//! A budget of bytes, in all, per client, and per connection, with waiting for what others give back.
//!
//! Bytes are drawn at a connection's [`Account`], which draws them at its client and at the whole as well. What is drawn is a
//! [`Grant`]: whoever holds the bytes holds it, and the last one to let go gives them back. Drawing and giving back are a few
//! atomic operations; a lock is taken only where somebody waits.

use std::{
    collections::hash_map::Entry,
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ahash::HashMap;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use crate::Client;

/// The limits of a budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that all connections together hold.
    pub total: u64,
    /// Bytes that the connections of one client hold.
    pub client: u64,
    /// Bytes that one connection holds.
    pub connection: u64,
}

/// How long one waits for bytes that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For what the connection itself has to give back first.
    pub own: Duration,
    /// For what the connections of the client, or of everybody, have to give back first.
    pub others: Duration,
}

/// Nothing was granted: as much as there may be is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("as many bytes are held as may be")
    }
}

impl std::error::Error for Exhausted {}

/// A budget of bytes. Clones share it.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    limits: Limits,
    all: Arc<Level>,
    /// The clients that have an account.
    clients: Mutex<HashMap<Client, Weak<Level>>>,
}

/// A connection's part of a budget. Clones are the same account.
#[derive(Clone)]
pub struct Account(Arc<Level>);

/// Bytes that somebody holds, given back when the grant is dropped.
#[must_use = "a grant that is dropped is given back"]
pub struct Grant {
    level: Arc<Level>,
    bytes: u64,
}

/// A bound and what of it is drawn.
struct Level {
    limit: u64,
    used: AtomicU64,
    /// Those who wait for bytes of this level.
    waiting: AtomicUsize,
    freed: Notify,
    above: Option<Arc<Level>>,
    /// Where a client's level is forgotten when its last account is gone.
    client: Option<(Weak<Shared>, Client)>,
}

impl Budget {
    /// A budget of which nothing is drawn.
    pub fn new(limits: Limits) -> Self {
        let all = Arc::new(Level::new(limits.total, None, None));
        Self(Arc::new(Shared { limits, all, clients: Mutex::default() }))
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Bytes that are held.
    pub fn used(&self) -> u64 {
        self.0.all.used.load(Ordering::Relaxed)
    }

    /// An account of a connection of `client`; of none, where many clients share a connection.
    pub fn account(&self, client: Option<Client>) -> Account {
        let above = client.map_or_else(|| self.0.all.clone(), |client| self.0.client(client));
        Account(Arc::new(Level::new(self.0.limits.connection, Some(above), None)))
    }

    /// An account that only the whole budget bounds: for work that is nobody's in particular.
    pub fn common_account(&self) -> Account {
        Account(self.0.all.clone())
    }
}

impl Shared {
    fn client(self: &Arc<Self>, client: Client) -> Arc<Level> {
        let new =
            || Arc::new(Level::new(self.limits.client, Some(self.all.clone()), Some((Arc::downgrade(self), client))));
        match self.clients().entry(client) {
            Entry::Occupied(mut known) => known.get().upgrade().unwrap_or_else(|| {
                let level = new();
                known.insert(Arc::downgrade(&level));
                level
            }),
            Entry::Vacant(vacant) => {
                let level = new();
                vacant.insert(Arc::downgrade(&level));
                level
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<Client, Weak<Level>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Draws `bytes` if they are there. No more than the account may hold is ever asked for: what is larger counts as that.
    pub fn try_take(&self, bytes: u64) -> Result<Grant, Exhausted> {
        let bytes = self.0.at_most(bytes);
        match self.0.take(bytes) {
            Ok(()) => Ok(Grant { level: self.0.clone(), bytes }),
            Err(_) => Err(Exhausted),
        }
    }

    /// Draws `bytes` if half of everything is left then: for what is of use and can be done without.
    pub fn try_take_spare(&self, bytes: u64) -> Result<Grant, Exhausted> {
        if self.0.upwards().any(|level| !level.has_spare(bytes)) {
            return Err(Exhausted);
        }
        self.try_take(bytes)
    }

    /// Draws `bytes`, and waits for them within `patience`.
    pub async fn take(&self, bytes: u64, patience: Patience) -> Result<Grant, Exhausted> {
        let bytes = self.0.at_most(bytes);
        if self.0.take(bytes).is_ok() {
            return Ok(Grant { level: self.0.clone(), bytes });
        }
        let start = Instant::now();
        // Whatever becomes of this one: what it was woken for, another can use.
        let _pass_on = PassOn(&self.0);
        loop {
            let full = match self.0.take(bytes) {
                Ok(()) => return Ok(Grant { level: self.0.clone(), bytes }),
                Err(full) => full,
            };
            let _waiting = Waiting::at(full);
            let mut freed = pin!(full.freed.notified());
            freed.as_mut().enable();
            // What was given back before this one was seen to wait has woken nobody.
            if full.has_room(bytes) {
                continue;
            }
            let own: &Level = &self.0;
            let patience = if std::ptr::eq(full, own) { patience.own } else { patience.others };
            timeout_at(start + patience, freed).await.map_err(|_| Exhausted)?;
        }
    }

    /// Bytes that the account may hold.
    pub fn limit(&self) -> u64 {
        self.0.at_most(u64::MAX)
    }

    /// Bytes that the account holds.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Grant {
    /// The bytes that are held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        for level in self.level.upwards() {
            level.give_back(self.bytes);
        }
    }
}

impl Level {
    fn new(limit: u64, above: Option<Arc<Self>>, client: Option<(Weak<Shared>, Client)>) -> Self {
        let (used, waiting, freed) = Default::default();
        Self { limit, used, waiting, freed, above, client }
    }

    /// This level and those above it.
    fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |level| level.above.as_deref())
    }

    /// What of `bytes` every level can hold at all.
    fn at_most(&self, bytes: u64) -> u64 {
        self.upwards().map(|level| level.limit).fold(bytes, u64::min)
    }

    /// Draws at every level, or at none. The error is the level that is full.
    fn take(&self, bytes: u64) -> Result<(), &Self> {
        for level in self.upwards() {
            if level.add(bytes) {
                continue;
            }
            for drawn in self.upwards().take_while(|drawn| !std::ptr::eq(*drawn, level)) {
                drawn.give_back(bytes);
            }
            return Err(level);
        }
        Ok(())
    }

    fn add(&self, bytes: u64) -> bool {
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::Relaxed, add).is_ok()
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.used.load(Ordering::SeqCst).saturating_add(bytes) <= self.limit
    }

    /// Whether half of the limit is left once `bytes` more are drawn.
    fn has_spare(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit / 2
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.wake_one();
    }

    fn wake_one(&self) {
        // One who waits has said so before looking at `used` again: either it sees the room, or is seen here.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_one();
        }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let Some((shared, client)) = &self.client else { return };
        let Some(shared) = shared.upgrade() else { return };
        let mut clients = shared.clients();
        // Meanwhile the client may have come back, with a level of its own.
        if clients.get(client).is_some_and(|level| level.strong_count() == 0) {
            clients.remove(client);
        }
    }
}

/// One who waits at a level.
struct Waiting<'l>(&'l Level);

impl<'l> Waiting<'l> {
    fn at(level: &'l Level) -> Self {
        level.waiting.fetch_add(1, Ordering::SeqCst);
        Self(level)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Wakes the next one when the one who waited is done: one who is woken may leave room, or not need it any more.
struct PassOn<'l>(&'l Level);

impl Drop for PassOn<'_> {
    fn drop(&mut self) {
        self.0.upwards().for_each(Level::wake_one);
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limits", &self.0.limits).field("used", &self.used()).finish()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("limit", &self.0.limit).field("used", &self.used()).finish()
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grant").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests;
