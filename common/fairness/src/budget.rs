//! A budget of bytes: in total, per client and its block, and per connection. Callers can wait for bytes that others
//! release.
//!
//! A connection draws bytes from its [`BudgetAccount`], which draws them from its client and from the total as well. A
//! client's share shrinks with what is left of the total, so that a few greedy clients leave room for others. When
//! hardly anything is left, the clients that hold the most give up buffered bytes that nobody consumes
//! ([`BudgetAccount::is_pressed`]). Drawn bytes are a [`ByteGrant`], held by their owner and released when it is dropped. Drawing
//! and releasing take a few atomic operations; only waiting takes a lock.

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

use self::beyond::ExtraGrants;
pub use self::beyond::{ExtraGrant, FirstGrant};
use crate::{Client, Payer as _, payer::GROUP_DIVISOR};

/// How often a waiter checks whether its share has grown: a release wakes only those that wait for it.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A client may always have its share divided by this, as long as the total allows.
const LEAST_DIVISOR: u64 = 32;
/// The total divided by this exists in addition to the total, for one grant of each client.
const FIRSTS_DIVISOR: u64 = 4;
/// The percentage of the total in use above which the clients that hold the most are pressed.
const PRESSED_PERCENT: u64 = 90;

/// The limits of a budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// The limit for all connections together.
    pub total: u64,
    /// The limit for one client while no other holds any. It shrinks in proportion to what is left of the total.
    pub client: u64,
    /// The limit for one connection.
    pub connection: u64,
}

/// The time limits for waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitLimits {
    /// The limit for bytes that the connection itself has to release.
    pub own: Duration,
    /// The limit for bytes that other connections of the client, or of others, have to release.
    pub others: Duration,
}

/// The limit is reached; nothing was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExhaustedError;

impl fmt::Display for ExhaustedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("as many bytes are held as may be")
    }
}

impl std::error::Error for ExhaustedError {}

/// A budget of bytes. Clones share it.
#[derive(Clone)]
pub struct ByteBudget(Arc<SharedBudget>);

struct SharedBudget {
    limits: BudgetLimits,
    all: Arc<BudgetLevel>,
    /// The grants of clients outside the total, one each.
    firsts: Arc<BudgetLevel>,
    clients: Mutex<HashMap<Client, Weak<BudgetLevel>>>,
}

/// A connection's part of a budget. Clones are the same account.
#[derive(Clone)]
pub struct BudgetAccount(Arc<BudgetLevel>);

/// Bytes in use, released on drop.
#[must_use = "a grant that is dropped is given back"]
pub struct ByteGrant {
    level: Arc<BudgetLevel>,
    bytes: u64,
}

struct BudgetLevel {
    limit: u64,
    /// The level of the total, and the factor applied to the limit's proportional part of what is left.
    shrinks: Option<(Arc<BudgetLevel>, u64)>,
    used: AtomicU64,
    waiting: AtomicUsize,
    freed: Notify,
    above: Option<Arc<BudgetLevel>>,
    /// The map that forgets a client's level when its last account is dropped.
    client: Option<(Weak<SharedBudget>, Client)>,
    /// The client's grants beyond its share.
    beyond: ExtraGrants,
    /// Whether the client holds its grant outside the total.
    has_first: AtomicBool,
}

/// The level that has no room.
struct FullLevel<'l> {
    level: &'l BudgetLevel,
    /// Whether it would have room if others held less.
    has_shrunk: bool,
}

impl ByteBudget {
    /// Creates an unused budget.
    pub fn new(limits: BudgetLimits) -> Self {
        let all = Arc::new(BudgetLevel::new(limits.total, None, None, None));
        let firsts = Arc::new(BudgetLevel::new(limits.total / FIRSTS_DIVISOR, None, None, None));
        Self(Arc::new(SharedBudget { limits, all, firsts, clients: Mutex::default() }))
    }

    /// Returns the limits.
    pub fn limits(&self) -> BudgetLimits {
        self.0.limits
    }

    /// Returns the bytes in use, including those outside the total.
    pub fn used(&self) -> u64 {
        [&self.0.all, &self.0.firsts].map(|level| level.used.load(Ordering::Relaxed)).iter().sum()
    }

    /// Creates an account for a connection of `client`. `None` is for connections shared by many clients.
    pub fn account(&self, client: Option<Client>) -> BudgetAccount {
        let above = client.map_or_else(|| self.0.all.clone(), |client| self.0.client(client));
        BudgetAccount(Arc::new(BudgetLevel::new(self.0.limits.connection, None, Some(above), None)))
    }

    /// Creates an account limited only by the total, for work that belongs to no client.
    pub fn common_account(&self) -> BudgetAccount {
        BudgetAccount(self.0.all.clone())
    }
}

impl SharedBudget {
    fn client(self: &Arc<Self>, client: Client) -> Arc<BudgetLevel> {
        let new = || {
            let BudgetLimits { total, client: limit, .. } = self.limits;
            let above = client.group().map_or_else(|| self.all.clone(), |block| self.client(block));
            let (limit, factor) =
                if client.is_block() { (limit.max(total / GROUP_DIVISOR as u64), 2) } else { (limit, 1) };
            let shrinks = Some((self.all.clone(), factor));
            Arc::new(BudgetLevel::new(limit, shrinks, Some(above), Some((Arc::downgrade(self), client))))
        };
        if let Some(known) = self.clients().get(&client).and_then(Weak::upgrade) {
            return known;
        }
        // Created without the lock, because its block's level may have to be created as well.
        let made = new();
        let mut clients = self.clients();
        if let Some(known) = clients.get(&client).and_then(Weak::upgrade) {
            // Unlocks before the superfluous level is dropped, which takes the lock.
            drop(clients);
            return known;
        }
        clients.insert(client, Arc::downgrade(&made));
        drop(clients);
        made
    }

    fn largest_holding(&self) -> u64 {
        // Dropped without the lock, because dropping the last reference takes it.
        let levels: Vec<Arc<BudgetLevel>> = self.clients().values().filter_map(Weak::upgrade).collect();
        let clients = levels.iter().filter(|level| level.client.as_ref().is_some_and(|(_, client)| !client.is_block()));
        clients.map(|level| level.used.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<Client, Weak<BudgetLevel>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetAccount {
    /// Draws `bytes` if they are available. A request larger than the account's limit counts as the limit.
    pub fn try_take(&self, bytes: u64) -> Result<ByteGrant, ExhaustedError> {
        let bytes = self.0.at_most(bytes);
        match self.0.take(bytes) {
            Ok(()) => Ok(ByteGrant { level: self.0.clone(), bytes }),
            Err(_) => Err(ExhaustedError),
        }
    }

    /// Draws `bytes` if half of every limit is left afterwards, for optional uses.
    pub fn try_take_spare(&self, bytes: u64) -> Result<ByteGrant, ExhaustedError> {
        if self.0.upwards().any(|level| !level.has_spare(bytes)) {
            return Err(ExhaustedError);
        }
        self.try_take(bytes)
    }

    /// Draws `bytes` if half of the total is left afterwards, for numerous small uses that must not crowd out others.
    pub fn try_take_common(&self, bytes: u64) -> Result<ByteGrant, ExhaustedError> {
        if self.0.upwards().last().is_some_and(|all| !all.has_spare(bytes)) {
            return Err(ExhaustedError);
        }
        self.try_take(bytes)
    }

    /// Draws `bytes`, waiting for them within `patience`.
    pub async fn take(&self, bytes: u64, patience: WaitLimits) -> Result<ByteGrant, ExhaustedError> {
        let bytes = self.0.at_most(bytes);
        if self.0.take(bytes).is_ok() {
            return Ok(ByteGrant { level: self.0.clone(), bytes });
        }
        let start = Instant::now();
        // Another waiter can use what this one was woken for, whatever the outcome.
        let _pass_on = WakeNextOnDrop(&self.0);
        loop {
            let FullLevel { level: full, has_shrunk } = match self.0.take(bytes) {
                Ok(()) => return Ok(ByteGrant { level: self.0.clone(), bytes }),
                Err(full) => full,
            };
            let _waiting = LevelWaiter::register(full);
            let mut freed = pin!(full.freed.notified());
            freed.as_mut().enable();
            // A release before this waiter was registered has woken nobody.
            if full.has_room(bytes) {
                continue;
            }
            let own: &BudgetLevel = &self.0;
            let until = start + if std::ptr::eq(full, own) { patience.own } else { patience.others };
            let next = if has_shrunk { until.min(Instant::now() + LOOK_AGAIN) } else { until };
            if timeout_at(next, freed).await.is_err() && next == until {
                return Err(ExhaustedError);
            }
        }
    }

    /// Returns the account of the connection's client, over all its connections, for memory other than response bytes.
    /// Without a client, it is that of the whole budget.
    #[must_use]
    pub fn client_account(&self) -> Self {
        Self(self.0.above.as_ref().unwrap_or(&self.0).clone())
    }

    /// Returns whether the total is nearly used up and this client among the largest: it should give up unconsumed
    /// bytes.
    pub fn is_pressed(&self) -> bool {
        let Some(client) = self.0.upwards().find(|level| level.client.is_some()) else { return false };
        let Some((all, _)) = &client.shrinks else { return false };
        if all.used.load(Ordering::Relaxed) < all.limit / 100 * PRESSED_PERCENT {
            return false;
        }
        let most = client
            .client
            .as_ref()
            .and_then(|(shared, _)| shared.upgrade())
            .map_or(0, |shared| shared.largest_holding());
        // Not only the client with the most: a crowd of equally greedy clients would be pressed one by one.
        client.used.load(Ordering::Relaxed) > most / 2
    }

    /// Returns whether the total is nearly used up.
    pub fn is_short(&self) -> bool {
        self.0.upwards().last().is_some_and(|all| all.used.load(Ordering::Relaxed) >= all.limit / 100 * PRESSED_PERCENT)
    }

    /// Returns whether callers wait for bytes because this account's client, or its block, is at its limit: unconsumed
    /// bytes are then in the way of others of the same client.
    pub fn is_blocking_itself(&self) -> bool {
        self.0.upwards().any(|level| level.client.is_some() && level.waiting.load(Ordering::Relaxed) > 0)
    }

    /// Returns the bytes that the account may hold.
    pub fn limit(&self) -> u64 {
        self.0.at_most(u64::MAX)
    }

    /// Returns the bytes that the account holds.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl ByteGrant {
    /// Returns the bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Draws `more` bytes if they are available. Otherwise nothing changes.
    pub fn try_grow(&mut self, more: u64) -> Result<(), ExhaustedError> {
        self.level.take(more).map_err(|_| ExhaustedError)?;
        self.bytes += more;
        Ok(())
    }

    /// Adds the bytes of `other`, which must belong to the same account.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.level, &other.level), "grants of two accounts");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Divides the grant: returns one of `bytes`, or of all if it is smaller, and keeps the rest.
    pub fn split_off(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { level: self.level.clone(), bytes }
    }

    /// Charges the bytes to the connection's client alone, for what is held for longer than the connection's other bytes.
    pub fn into_client(mut self) -> Self {
        match &self.level.above {
            Some(above) if self.level.client.is_none() => {
                let above = above.clone();
                self.level.give_back(self.bytes);
                Self { level: above, bytes: std::mem::take(&mut self.bytes) }
            }
            _ => self,
        }
    }

    /// Releases the bytes beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let Some(less) = self.bytes.checked_sub(bytes).filter(|less| *less > 0) else { return };
        self.bytes = bytes;
        for level in self.level.upwards() {
            level.give_back(less);
        }
    }
}

impl Drop for ByteGrant {
    fn drop(&mut self) {
        for level in self.level.upwards() {
            level.give_back(self.bytes);
        }
    }
}

impl BudgetLevel {
    fn new(
        limit: u64,
        shrinks: Option<(Arc<Self>, u64)>,
        above: Option<Arc<Self>>,
        client: Option<(Weak<SharedBudget>, Client)>,
    ) -> Self {
        let (used, waiting, freed, beyond, has_first) = Default::default();
        Self { limit, shrinks, used, waiting, freed, above, client, beyond, has_first }
    }

    fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |level| level.above.as_deref())
    }

    fn client_level(self: &Arc<Self>) -> Option<Arc<Self>> {
        std::iter::successors(Some(self), |level| level.above.as_ref()).find(|level| level.client.is_some()).cloned()
    }

    /// Caps `bytes` at the lowest limit of all levels.
    fn at_most(&self, bytes: u64) -> u64 {
        self.upwards().map(|level| level.limit).fold(bytes, u64::min)
    }

    /// Returns the limit, given what is left of the total.
    fn limit_now(&self) -> u64 {
        let Some((all, times)) = &self.shrinks else { return self.limit };
        let free = all.limit.saturating_sub(all.used.load(Ordering::Relaxed));
        let shrunk = u128::from(self.limit) * u128::from(*times) * u128::from(free) / u128::from(all.limit.max(1));
        u64::try_from(shrunk).unwrap_or(u64::MAX).clamp(self.limit / LEAST_DIVISOR, self.limit)
    }

    /// Draws at every level, or at none. The error names the level that is full.
    fn take(&self, bytes: u64) -> Result<(), FullLevel<'_>> {
        for level in self.upwards() {
            if level.add(bytes) {
                continue;
            }
            for drawn in self.upwards().take_while(|drawn| !std::ptr::eq(*drawn, level)) {
                drawn.give_back(bytes);
            }
            return Err(FullLevel { level, has_shrunk: level.has_shrunk(bytes) });
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

    /// Returns whether `bytes` would fit if others held less.
    fn has_shrunk(&self, bytes: u64) -> bool {
        self.shrinks.is_some() && self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit
    }

    /// Returns whether half of the limit is left after `bytes` more are drawn.
    fn has_spare(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit_now() / 2
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.wake_one();
    }

    fn wake_one(&self) {
        // A waiter registers before it checks `used` again: either it sees the room, or it is seen here.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_one();
        }
    }
}

impl Drop for BudgetLevel {
    fn drop(&mut self) {
        let Some((shared, client)) = &self.client else { return };
        let Some(shared) = shared.upgrade() else { return };
        let mut clients = shared.clients();
        // The client may have come back in the meantime, with a new level.
        if clients.get(client).is_some_and(|level| level.strong_count() == 0) {
            clients.remove(client);
        }
    }
}

/// Registers a waiter at a level until dropped.
struct LevelWaiter<'l>(&'l BudgetLevel);

impl<'l> LevelWaiter<'l> {
    fn register(level: &'l BudgetLevel) -> Self {
        level.waiting.fetch_add(1, Ordering::SeqCst);
        Self(level)
    }
}

impl Drop for LevelWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Wakes the next waiter when this one is done: it may leave room, or need it no longer.
struct WakeNextOnDrop<'l>(&'l BudgetLevel);

impl Drop for WakeNextOnDrop<'_> {
    fn drop(&mut self) {
        self.0.upwards().for_each(BudgetLevel::wake_one);
    }
}

impl fmt::Debug for ByteBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limits", &self.0.limits).field("used", &self.used()).finish()
    }
}

impl fmt::Debug for BudgetAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("limit", &self.0.limit).field("used", &self.used()).finish()
    }
}

impl fmt::Debug for ByteGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grant").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests;
