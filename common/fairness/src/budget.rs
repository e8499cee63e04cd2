//! A budget of bytes, in all, per client and its block, and per connection, with waiting for what others give back.
//!
//! Bytes are drawn at a connection's [`Account`], which draws them at its client and at the whole as well. What a client may have
//! shrinks with what is left of the whole, so that a few that are greedy together leave something to the others; and where hardly
//! anything is left, those who hold the most give up what nobody takes of it ([`Account::is_pressed`]). What is drawn is a
//! [`Grant`]: whoever holds the bytes holds it, and the last one to let go gives them back. Drawing and giving back are a few
//! atomic operations; a lock is taken only where somebody waits.

mod beyond;

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ahash::HashMap;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use self::beyond::Ring;
pub use self::beyond::{Beyond, First};
use crate::{Client, Payer as _, payer::GROUP_DIVISOR};

/// Interval at which one looks again who waits for a share to grow: what others give back wakes those alone who wait for that.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// One of so many parts of its share a client has in any case, as long as the whole has it.
const LEAST_DIVISOR: u64 = 32;
/// One of so many parts of the whole there is beside it, for one grant of each client.
const FIRSTS_DIVISOR: u64 = 4;
/// Hundredths of the whole that are held beyond which those who hold the most are pressed.
const PRESSED_PERCENT: u64 = 90;

/// The limits of a budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that all connections together hold.
    pub total: u64,
    /// Bytes that the connections of one client hold while nobody else holds any. It shrinks in proportion to what is left of the whole.
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
    /// What clients hold beside the whole, one grant each.
    firsts: Arc<Level>,
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
    /// The whole, and the factor by which the limit is larger than in proportion to what is left of it.
    shrinks: Option<(Arc<Level>, u64)>,
    used: AtomicU64,
    /// Those who wait for bytes of this level.
    waiting: AtomicUsize,
    freed: Notify,
    above: Option<Arc<Level>>,
    /// Where a client's level is forgotten when its last account is gone.
    client: Option<(Weak<Shared>, Client)>,
    /// What a client holds beyond its share.
    beyond: Ring,
    /// Whether a client holds its grant beside the whole.
    has_first: AtomicBool,
}

/// Why a level has no room.
struct Full<'l> {
    level: &'l Level,
    /// Whether it would have room if others held less.
    has_shrunk: bool,
}

impl Budget {
    /// A budget of which nothing is drawn.
    pub fn new(limits: Limits) -> Self {
        let all = Arc::new(Level::new(limits.total, None, None, None));
        let firsts = Arc::new(Level::new(limits.total / FIRSTS_DIVISOR, None, None, None));
        Self(Arc::new(Shared { limits, all, firsts, clients: Mutex::default() }))
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Bytes that are held, with those beside the whole.
    pub fn used(&self) -> u64 {
        [&self.0.all, &self.0.firsts].map(|level| level.used.load(Ordering::Relaxed)).iter().sum()
    }

    /// An account of a connection of `client`; of none, where many clients share a connection.
    pub fn account(&self, client: Option<Client>) -> Account {
        let above = client.map_or_else(|| self.0.all.clone(), |client| self.0.client(client));
        Account(Arc::new(Level::new(self.0.limits.connection, None, Some(above), None)))
    }

    /// An account that only the whole budget bounds: for work that is nobody's in particular.
    pub fn common_account(&self) -> Account {
        Account(self.0.all.clone())
    }
}

impl Shared {
    /// The level of a client, or of a block of clients.
    fn client(self: &Arc<Self>, client: Client) -> Arc<Level> {
        let new = || {
            let Limits { total, client: limit, .. } = self.limits;
            let above = client.group().map_or_else(|| self.all.clone(), |block| self.client(block));
            let (limit, factor) =
                if client.is_block() { (limit.max(total / GROUP_DIVISOR as u64), 2) } else { (limit, 1) };
            let shrinks = Some((self.all.clone(), factor));
            Arc::new(Level::new(limit, shrinks, Some(above), Some((Arc::downgrade(self), client))))
        };
        if let Some(known) = self.clients().get(&client).and_then(Weak::upgrade) {
            return known;
        }
        // Made without the lock, since its block's level may have to be made as well.
        let made = new();
        let mut clients = self.clients();
        if let Some(known) = clients.get(&client).and_then(Weak::upgrade) {
            // Before what was made in vain is let go of, which takes the lock.
            drop(clients);
            return known;
        }
        clients.insert(client, Arc::downgrade(&made));
        drop(clients);
        made
    }

    /// Bytes that the client holds that holds the most.
    fn most(&self) -> u64 {
        // Let go of without the lock: the last to do so takes it.
        let levels: Vec<Arc<Level>> = self.clients().values().filter_map(Weak::upgrade).collect();
        let clients = levels.iter().filter(|level| level.client.as_ref().is_some_and(|(_, client)| !client.is_block()));
        clients.map(|level| level.used.load(Ordering::Relaxed)).max().unwrap_or(0)
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

    /// Draws `bytes` if half of the whole is left then: for what there may be many of, and that is not to be in the way of what they are for.
    pub fn try_take_of_half(&self, bytes: u64) -> Result<Grant, Exhausted> {
        if self.0.upwards().last().is_some_and(|all| !all.has_spare(bytes)) {
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
            let Full { level: full, has_shrunk } = match self.0.take(bytes) {
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
            let until = start + if std::ptr::eq(full, own) { patience.own } else { patience.others };
            let next = if has_shrunk { until.min(Instant::now() + LOOK_AGAIN) } else { until };
            if timeout_at(next, freed).await.is_err() && next == until {
                return Err(Exhausted);
            }
        }
    }

    /// The account of the connection's client, over all its connections: for what stands beside the bytes of answers. The whole budget
    /// where there is no client.
    #[must_use]
    pub fn of_client(&self) -> Self {
        Self(self.0.above.as_ref().unwrap_or(&self.0).clone())
    }

    /// Whether hardly anything is left of the whole, and the client is one of those who hold the most: it is to give up what it does not
    /// take.
    pub fn is_pressed(&self) -> bool {
        let Some(client) = self.0.upwards().find(|level| level.client.is_some()) else { return false };
        let Some((all, _)) = &client.shrinks else { return false };
        if all.used.load(Ordering::Relaxed) < all.limit / 100 * PRESSED_PERCENT {
            return false;
        }
        let most = client.client.as_ref().and_then(|(shared, _)| shared.upgrade()).map_or(0, |shared| shared.most());
        // Not the first alone: a crowd that is equally greedy would be gone through one by one.
        client.used.load(Ordering::Relaxed) > most / 2
    }

    /// Whether hardly anything is left of the whole.
    pub fn is_short(&self) -> bool {
        self.0.upwards().last().is_some_and(|all| all.used.load(Ordering::Relaxed) >= all.limit / 100 * PRESSED_PERCENT)
    }

    /// Whether somebody waits for bytes that this account's client, or its block, may not hold because it holds so many: what of them is not
    /// taken is in the way of what may be.
    pub fn is_in_own_way(&self) -> bool {
        self.0.upwards().any(|level| level.client.is_some() && level.waiting.load(Ordering::Relaxed) > 0)
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

    /// Draws `more` if they are there. Nothing changes when they are not.
    pub fn try_grow(&mut self, more: u64) -> Result<(), Exhausted> {
        self.level.take(more).map_err(|_| Exhausted)?;
        self.bytes += more;
        Ok(())
    }

    /// Adds what `other` holds, which is of the same account.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.level, &other.level), "grants of two accounts");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives back what is held beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let Some(less) = self.bytes.checked_sub(bytes).filter(|less| *less > 0) else { return };
        self.bytes = bytes;
        for level in self.level.upwards() {
            level.give_back(less);
        }
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
    fn new(
        limit: u64,
        shrinks: Option<(Arc<Self>, u64)>,
        above: Option<Arc<Self>>,
        client: Option<(Weak<Shared>, Client)>,
    ) -> Self {
        let (used, waiting, freed, beyond, has_first) = Default::default();
        Self { limit, shrinks, used, waiting, freed, above, client, beyond, has_first }
    }

    /// This level and those above it.
    fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |level| level.above.as_deref())
    }

    /// The level of the client, where there is one.
    fn client_level(self: &Arc<Self>) -> Option<Arc<Self>> {
        std::iter::successors(Some(self), |level| level.above.as_ref()).find(|level| level.client.is_some()).cloned()
    }

    /// What of `bytes` every level can hold at all.
    fn at_most(&self, bytes: u64) -> u64 {
        self.upwards().map(|level| level.limit).fold(bytes, u64::min)
    }

    /// The limit by what is left of the whole.
    fn limit_now(&self) -> u64 {
        let Some((all, times)) = &self.shrinks else { return self.limit };
        let free = all.limit.saturating_sub(all.used.load(Ordering::Relaxed));
        let shrunk = u128::from(self.limit) * u128::from(*times) * u128::from(free) / u128::from(all.limit.max(1));
        u64::try_from(shrunk).unwrap_or(u64::MAX).clamp(self.limit / LEAST_DIVISOR, self.limit)
    }

    /// Draws at every level, or at none. The error is the level that is full.
    fn take(&self, bytes: u64) -> Result<(), Full<'_>> {
        for level in self.upwards() {
            if level.add(bytes) {
                continue;
            }
            for drawn in self.upwards().take_while(|drawn| !std::ptr::eq(*drawn, level)) {
                drawn.give_back(bytes);
            }
            return Err(Full { level, has_shrunk: level.has_shrunk(bytes) });
        }
        Ok(())
    }

    fn add(&self, bytes: u64) -> bool {
        let limit = self.limit_now();
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::Relaxed, add).is_ok()
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.used.load(Ordering::SeqCst).saturating_add(bytes) <= self.limit_now()
    }

    /// Whether `bytes` would fit if others held less.
    fn has_shrunk(&self, bytes: u64) -> bool {
        self.shrinks.is_some() && self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit
    }

    /// Whether half of the limit is left once `bytes` more are drawn.
    fn has_spare(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit_now() / 2
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
