//! Room for items of different sizes, such as memory for bodies, in total and per key, with waiting. An item's whole
//! size is acquired before it starts, as far as it is known, so that waiters keep no part from others for long.
//!
//! Waiting keys take turns, group by group. The keys of a group together have a quarter of the room, or one key's share
//! if that is larger. An item larger than a key's share is admitted when the key holds nothing else, and an item larger
//! than the total counts as the total: it is alone in the room.

use std::{
    collections::VecDeque,
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ahash::HashMap;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout, timeout_at},
};

use super::{
    Payer, ShareError,
    lines::WaitingLines,
    payer::{GROUP_DIVISOR, choose_evicted_key},
};

/// The bounds of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomBounds {
    /// The limit for all keys together.
    pub total: u64,
    /// The limit for one key, unless it holds a single item.
    pub share: u64,
    /// The limit of waiters. At this limit, the key that waits with the most makes room for others.
    pub waiting: usize,
    /// The limit of waiters of one key.
    pub waiting_share: usize,
}

/// A shared room. Clones share it.
pub struct SizedRoom<K: Payer> {
    shared: Arc<SharedRoom<K>>,
}

/// A place in a room, given back on drop.
#[must_use = "a place that is dropped is given back"]
pub struct RoomPlace<K: Payer> {
    shared: Arc<SharedRoom<K>>,
    key: K,
    /// Changes under the lock of the room's state only.
    size: AtomicU64,
}

struct SharedRoom<K: Payer> {
    bounds: RoomBounds,
    /// Wakes the places that wait to grow.
    freed: Notify,
    state: Mutex<RoomState<K>>,
}

struct RoomState<K: Payer> {
    held: u64,
    waiting: usize,
    next_waiter: u64,
    /// The keys that hold something or wait.
    keys: HashMap<K, RoomHoldings>,
    /// The groups whose keys hold something or wait.
    groups: HashMap<K::Group, RoomGroup>,
    order: WaitingLines<K>,
}

/// The totals of a group, over all its keys.
#[derive(Default)]
struct RoomGroup {
    held: u64,
    waiting: usize,
}

#[derive(Default)]
struct RoomHoldings {
    held: u64,
    waiting: VecDeque<QueuedItem>,
}

struct QueuedItem {
    number: u64,
    size: u64,
    grant: oneshot::Sender<()>,
}

/// A waiter, which leaves the queue on drop.
struct RoomWaiter<'r, K: Payer> {
    shared: &'r Arc<SharedRoom<K>>,
    key: &'r K,
    number: u64,
    size: u64,
    granted: oneshot::Receiver<()>,
}

impl<K: Payer> Clone for SizedRoom<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Payer> SizedRoom<K> {
    /// Creates an empty room with `bounds`.
    pub fn new(bounds: RoomBounds) -> Self {
        let (held, waiting, next_waiter, keys, groups, order) = Default::default();
        let state = RoomState { held, waiting, next_waiter, keys, groups, order };
        Self { shared: Arc::new(SharedRoom { bounds, freed: Notify::new(), state: Mutex::new(state) }) }
    }

    /// Takes a place of this size, waiting up to `patience`. A dropped caller leaves the queue.
    pub async fn take(&self, key: &K, size: u64, patience: Duration) -> Result<RoomPlace<K>, ShareError> {
        let bounds = &self.shared.bounds;
        let size = size.min(bounds.total);
        let (number, granted) = {
            let mut state = self.shared.state();
            let queued = state.enqueue(key, size, bounds)?;
            state.grant(bounds);
            queued
        };
        let waiter = RoomWaiter { shared: &self.shared, key, number, size, granted };
        timeout(patience, waiter.granted()).await.unwrap_or(Err(ShareError::Full))
    }

    /// Returns the total size held by all keys.
    pub fn held(&self) -> u64 {
        self.shared.state().held
    }
}

impl<K: Payer> RoomPlace<K> {
    /// Returns the size of the place.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Divides the place: returns one of `size`, or of all of it if it is smaller, and keeps the rest.
    pub fn split_off(&self, size: u64) -> Self {
        let state = self.shared.state();
        let size = size.min(self.size());
        self.size.store(self.size() - size, Ordering::Relaxed);
        drop(state);
        Self { shared: self.shared.clone(), key: self.key.clone(), size: size.into() }
    }

    /// Gives back what exceeds `size`.
    pub fn shrink_to(&self, size: u64) {
        drop(self.split_off(self.size().saturating_sub(size)));
    }

    /// Grows the place to `size`, waiting up to `patience` for what others hold. Callers must be few, or patience short:
    /// meanwhile the place keeps its own part from others, two of which may wait for each other. Waiters that hold
    /// nothing have precedence.
    pub async fn grow_within(&self, size: u64, patience: Duration) -> Result<(), ShareError> {
        let deadline = Instant::now() + patience;
        loop {
            let mut freed = pin!(self.shared.freed.notified());
            // What is given back from now on wakes it.
            freed.as_mut().enable();
            match self.grow_to(size) {
                Err(ShareError::Full) => {}
                grown => return grown,
            }
            if timeout_at(deadline, freed).await.is_err() {
                return Err(ShareError::Full);
            }
        }
    }

    /// Grows the place to `size` if it is smaller, without waiting. If that is refused, nothing changes.
    pub fn grow_to(&self, size: u64) -> Result<(), ShareError> {
        let bounds = &self.shared.bounds;
        let size = size.min(bounds.total);
        let mut state = self.shared.state();
        let own = self.size();
        let Some(by) = size.checked_sub(own).filter(|by| *by > 0) else { return Ok(()) };
        let its = state.keys.get(&self.key).map_or(0, |holdings| holdings.held);
        let others = state.with_group(&self.key, |of_group| of_group.held).saturating_sub(own);
        if (its > own && its + by > bounds.share) || (others > 0 && others + size > bounds.group_share()) {
            return Err(ShareError::Share);
        }
        if state.held + by > bounds.total {
            return Err(ShareError::Full);
        }
        state.hold(&self.key, by);
        self.size.store(size, Ordering::Relaxed);
        Ok(())
    }
}

impl<K: Payer> SharedRoom<K> {
    fn state(&self) -> MutexGuard<'_, RoomState<K>> {
        // Nothing panics while the lock is held, so its contents are consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RoomBounds {
    /// Returns the limit for the keys of one group, unless they hold a single item.
    fn group_share(&self) -> u64 {
        self.share.max(self.total / GROUP_DIVISOR as u64)
    }
}

impl<K: Payer> RoomState<K> {
    fn hold(&mut self, key: &K, size: u64) {
        self.held += size;
        if let Some(holdings) = self.keys.get_mut(key) {
            holdings.held += size;
        }
        self.with_group(key, |of_group| of_group.held += size);
    }

    /// Reads or changes the totals of a key's group. Returns the default for a key without a group.
    fn with_group<T: Default>(&mut self, key: &K, with: impl FnOnce(&mut RoomGroup) -> T) -> T {
        let Some(group) = key.group() else { return T::default() };
        let of_group = self.groups.entry(group.clone()).or_default();
        let result = with(of_group);
        if of_group.held == 0 && of_group.waiting == 0 {
            self.groups.remove(&group);
        }
        result
    }

    fn enqueue(&mut self, key: &K, size: u64, bounds: &RoomBounds) -> Result<(u64, oneshot::Receiver<()>), ShareError> {
        let of_group = self.with_group(key, |of_group| of_group.waiting);
        if of_group > 0 && of_group >= bounds.waiting_share.max(bounds.waiting / GROUP_DIVISOR) {
            return Err(ShareError::Share);
        }
        if self.keys.get(key).is_some_and(|holdings| holdings.waiting.len() >= bounds.waiting_share) {
            return Err(ShareError::Share);
        }
        if self.waiting >= bounds.waiting && !self.evict_waiter(key) {
            return Err(ShareError::Full);
        }
        let holdings = self.keys.entry(key.clone()).or_default();
        let (grant, granted) = oneshot::channel();
        let number = self.next_waiter;
        self.next_waiter += 1;
        self.waiting += 1;
        if holdings.waiting.is_empty() {
            self.order.push(key.clone());
        }
        holdings.waiting.push_back(QueuedItem { number, size, grant });
        self.with_group(key, |of_group| of_group.waiting += 1);
        Ok((number, granted))
    }

    /// Removes the newest waiter of the key that waits with the most, in favor of `newcomer`. Returns whether it did.
    fn evict_waiter(&mut self, newcomer: &K) -> bool {
        let waiting = self.keys.iter().map(|(key, holdings)| (key, holdings.waiting.len()));
        let Some(key) = choose_evicted_key(newcomer, waiting) else { return false };
        let Some(holdings) = self.keys.get_mut(&key) else { return false };
        // Dropping the waiter's sender notifies it.
        if holdings.waiting.pop_back().is_none() {
            return false;
        }
        if holdings.waiting.is_empty() {
            self.order.remove(&key);
        }
        self.waiting -= 1;
        self.with_group(&key, |of_group| of_group.waiting -= 1);
        self.forget_if_idle(&key);
        true
    }

    /// Admits waiters, one for each key before any key gets a second. A waiter that does not fit holds up those behind
    /// it, or it would never fit; one that only its key's or group's share excludes does not.
    fn grant(&mut self, bounds: &RoomBounds) {
        let mut at = 0;
        loop {
            let mut order = std::mem::take(&mut self.order);
            let first = order.peek(&mut at, |key| self.is_within_share(key, bounds));
            let fits = first.is_some_and(|key| self.held + self.next_size(key) <= bounds.total);
            let next = if fits { order.take(at, |key| self.is_within_share(key, bounds)) } else { None };
            self.order = order;
            let Some(key) = next else { return };
            let Some(holdings) = self.keys.get_mut(&key) else { continue };
            if let Some(first) = holdings.waiting.pop_front() {
                self.waiting -= 1;
                let is_left = !holdings.waiting.is_empty();
                self.with_group(&key, |of_group| of_group.waiting -= 1);
                // A waiter that was dropped leaves the queue by itself.
                if first.grant.send(()).is_ok() {
                    self.hold(&key, first.size);
                }
                if is_left {
                    self.order.push(key.clone());
                }
            }
            self.forget_if_idle(&key);
        }
    }

    /// Returns the size of the first item that a key waits for.
    fn next_size(&self, key: &K) -> u64 {
        self.keys.get(key).and_then(|holdings| holdings.waiting.front()).map_or(0, |first| first.size)
    }

    /// Returns whether the first item that a key waits for is within its share and its group's.
    fn is_within_share(&self, key: &K, bounds: &RoomBounds) -> bool {
        let (size, held) = (self.next_size(key), self.keys.get(key).map_or(0, |holdings| holdings.held));
        let of_group = key.group().and_then(|group| self.groups.get(&group)).map_or(0, |of_group| of_group.held);
        (held == 0 || held + size <= bounds.share) && (of_group == 0 || of_group + size <= bounds.group_share())
    }

    fn give_back(&mut self, key: &K, size: u64, bounds: &RoomBounds) {
        self.held -= size;
        if let Some(holdings) = self.keys.get_mut(key) {
            holdings.held -= size;
        }
        self.with_group(key, |of_group| of_group.held -= size);
        self.forget_if_idle(key);
        self.grant(bounds);
    }

    fn leave(&mut self, key: &K, number: u64, bounds: &RoomBounds) {
        if let Some(holdings) = self.keys.get_mut(key) {
            let before = holdings.waiting.len();
            holdings.waiting.retain(|waiting| waiting.number != number);
            let left = before - holdings.waiting.len();
            if holdings.waiting.is_empty() {
                self.order.remove(key);
            }
            self.waiting -= left;
            self.with_group(key, |of_group| of_group.waiting -= left);
        }
        self.forget_if_idle(key);
        // The waiter may have held up smaller ones.
        self.grant(bounds);
    }

    fn forget_if_idle(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(|holdings| holdings.held == 0 && holdings.waiting.is_empty()) {
            self.keys.remove(key);
        }
    }
}

impl<K: Payer> RoomWaiter<'_, K> {
    async fn granted(mut self) -> Result<RoomPlace<K>, ShareError> {
        // The sender stays in the queue for as long as this waiter does, unless a newcomer pushes it out.
        (&mut self.granted).await.map_err(|_| ShareError::Full)?;
        Ok(RoomPlace { shared: self.shared.clone(), key: self.key.clone(), size: self.size.into() })
    }
}

impl<K: Payer> Drop for RoomWaiter<'_, K> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // A place granted at the moment of giving up goes to the next waiter.
        if self.granted.try_recv().is_ok() {
            state.give_back(self.key, self.size, &self.shared.bounds);
        } else {
            state.leave(self.key, self.number, &self.shared.bounds);
        }
    }
}

impl<K: Payer> Drop for RoomPlace<K> {
    fn drop(&mut self) {
        self.shared.state().give_back(&self.key, self.size(), &self.shared.bounds);
        self.shared.freed.notify_waiters();
    }
}

impl<K: Payer> fmt::Debug for SizedRoom<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("bounds", &self.shared.bounds).field("held", &self.held()).finish()
    }
}

impl<K: Payer + fmt::Debug> fmt::Debug for RoomPlace<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("key", &self.key).field("size", &self.size()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
