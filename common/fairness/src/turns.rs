//! Limits concurrent use of a resource, in total, per key and per group of keys. Waiting is round robin over the
//! groups, and over the keys of each. Shares shrink once half of the turns are taken.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ahash::HashMap;
use tokio::{sync::oneshot, time::timeout};

use super::{
    Payer,
    lines::WaitingLines,
    payer::{GROUP_DIVISOR, choose_evicted_key, current_share},
};

/// The bounds of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnBounds {
    /// The limit of turns for all keys together.
    pub total: usize,
    /// The limit of turns for one key, while half of all turns are free.
    pub share: usize,
    /// The limit of waiters of all keys. At this limit, the key that waits with the most makes room for others.
    pub waiting: usize,
    /// The limit of waiters of one key. A group may have a quarter of all places, or one key's if that is more.
    pub waiting_share: usize,
}

/// The reason no turn was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareError {
    /// The key has reached its limit of turns, or of waiters.
    Share,
    /// All turns, or all places to wait, are taken.
    Full,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Share => "one client or account has as much as it may have",
            Self::Full => "everything is taken",
        })
    }
}

impl std::error::Error for ShareError {}

/// The turns of one resource. Clones share them. A waiting group gets its turn before any other group gets a second
/// one, however many keys of the other wait; within a group, the same holds for its keys.
pub struct TurnQueue<K: Payer> {
    shared: Arc<SharedTurns<K>>,
}

/// The right to use the resource, given back on drop.
#[must_use = "a turn that is dropped is given back"]
pub struct TurnPermit<K: Payer> {
    shared: Arc<SharedTurns<K>>,
    key: K,
}

struct SharedTurns<K: Payer> {
    bounds: TurnBounds,
    /// A copy of the state's number, read without the lock.
    taken: AtomicUsize,
    state: Mutex<TurnState<K>>,
}

struct TurnState<K: Payer> {
    taken: usize,
    waiting: usize,
    next_waiter: u64,
    /// The keys that hold or wait for a turn.
    keys: HashMap<K, TurnHoldings>,
    /// The groups whose keys hold or wait for a turn.
    groups: HashMap<K::Group, TurnGroup>,
    order: WaitingLines<K>,
}

/// The totals of a group, over all its keys.
#[derive(Default)]
struct TurnGroup {
    taken: usize,
    waiting: usize,
}

#[derive(Default)]
struct TurnHoldings {
    taken: usize,
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    is_in_order: bool,
}

/// A place in the queue, left on drop.
struct TurnWaiter<'t, K: Payer> {
    shared: &'t Arc<SharedTurns<K>>,
    key: &'t K,
    number: u64,
    granted: oneshot::Receiver<()>,
}

impl<K: Payer> Clone for TurnQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Payer> TurnQueue<K> {
    /// Creates free turns with `bounds`.
    pub fn new(bounds: TurnBounds) -> Self {
        let (keys, groups, order) = Default::default();
        let state = TurnState { taken: 0, waiting: 0, next_waiter: 0, keys, groups, order };
        Self { shared: Arc::new(SharedTurns { bounds, taken: AtomicUsize::new(0), state: Mutex::new(state) }) }
    }

    /// Returns the bounds.
    pub fn bounds(&self) -> TurnBounds {
        self.shared.bounds
    }

    /// Takes a turn if one is free.
    pub fn try_take(&self, key: &K) -> Result<TurnPermit<K>, ShareError> {
        self.shared.change(|state, bounds| state.take(key, bounds))?;
        Ok(self.shared.turn(key))
    }

    /// Takes a turn if one is free and the key holds fewer than `share`, which replaces the usual share.
    pub fn try_take_with_share(&self, key: &K, share: usize) -> Result<TurnPermit<K>, ShareError> {
        self.shared.change(|state, bounds| state.take(key, &TurnBounds { share, ..*bounds }))?;
        Ok(self.shared.turn(key))
    }

    /// Takes a turn, waiting up to `patience`. A dropped caller leaves the queue.
    pub async fn take(&self, key: &K, patience: Duration) -> Result<TurnPermit<K>, ShareError> {
        let queued = self.shared.change(|state, bounds| match state.take(key, bounds) {
            Ok(()) => Ok(None),
            Err(refused) => state.enqueue(key, bounds).map(|(number, granted)| Some((refused, number, granted))),
        })?;
        let Some((refused, number, granted)) = queued else { return Ok(self.shared.turn(key)) };
        let waiter = TurnWaiter { shared: &self.shared, key, number, granted };
        match timeout(patience, waiter.granted()).await {
            Ok(turn) => turn,
            Err(_) => Err(refused),
        }
    }

    /// Returns the number of turns taken, without locking.
    pub fn in_use(&self) -> usize {
        self.shared.taken.load(Ordering::Relaxed)
    }

    /// Returns the `count` keys that hold the most turns, in descending order, with their numbers.
    pub fn top_keys(&self, count: usize) -> Vec<(K, usize)> {
        let mut keys: Vec<_> = {
            let state = self.shared.state();
            state.keys.iter().map(|(key, holdings)| (key.clone(), holdings.taken)).collect()
        };
        keys.sort_by_key(|&(_, taken)| std::cmp::Reverse(taken));
        keys.truncate(count);
        keys
    }
}

impl<K: Payer> TurnPermit<K> {
    /// Returns the key that holds the turn.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Returns the number of turns taken by all keys, including this one, without locking.
    pub fn taken(&self) -> usize {
        self.shared.taken.load(Ordering::Relaxed)
    }
}

impl<K: Payer> SharedTurns<K> {
    fn state(&self) -> MutexGuard<'_, TurnState<K>> {
        // Nothing panics while the lock is held, so its contents are consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut TurnState<K>, &TurnBounds) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state, &self.bounds);
        self.taken.store(state.taken, Ordering::Relaxed);
        result
    }

    fn turn(self: &Arc<Self>, key: &K) -> TurnPermit<K> {
        TurnPermit { shared: self.clone(), key: key.clone() }
    }
}

impl<K: Payer> TurnState<K> {
    /// Returns whether the key may have another turn.
    fn allows(&self, key: &K, bounds: &TurnBounds) -> Result<(), ShareError> {
        if !self.allows_key(key, bounds) || !self.allows_group(key, bounds) {
            return Err(ShareError::Share);
        }
        if self.taken >= bounds.total { Err(ShareError::Full) } else { Ok(()) }
    }

    fn allows_key(&self, key: &K, bounds: &TurnBounds) -> bool {
        let held = self.keys.get(key).map_or(0, |holdings| holdings.taken);
        held < current_share(bounds.share, bounds.total.saturating_sub(self.taken), bounds.total)
    }

    fn allows_group(&self, key: &K, bounds: &TurnBounds) -> bool {
        let Some(group) = key.group() else { return true };
        let share = bounds.share.max(bounds.total / GROUP_DIVISOR);
        let held = self.groups.get(&group).map_or(0, |of_group| of_group.taken);
        held < current_share(share, bounds.total.saturating_sub(self.taken), bounds.total)
    }

    fn take(&mut self, key: &K, bounds: &TurnBounds) -> Result<(), ShareError> {
        self.allows(key, bounds)?;
        self.hold(key);
        Ok(())
    }

    fn hold(&mut self, key: &K) {
        self.taken += 1;
        self.keys.entry(key.clone()).or_default().taken += 1;
        self.with_group(key, |of_group| of_group.taken += 1);
    }

    fn with_group(&mut self, key: &K, change: impl FnOnce(&mut TurnGroup)) {
        let Some(group) = key.group() else { return };
        let of_group = self.groups.entry(group.clone()).or_default();
        change(of_group);
        if of_group.taken == 0 && of_group.waiting == 0 {
            self.groups.remove(&group);
        }
    }

    fn enqueue(&mut self, key: &K, bounds: &TurnBounds) -> Result<(u64, oneshot::Receiver<()>), ShareError> {
        if self.keys.get(key).is_some_and(|holdings| holdings.waiting.len() >= bounds.waiting_share) {
            return Err(ShareError::Share);
        }
        let of_group = key.group().and_then(|group| self.groups.get(&group)).map_or(0, |of_group| of_group.waiting);
        if of_group >= bounds.waiting_share.max(bounds.waiting / GROUP_DIVISOR) && of_group > 0 {
            return Err(ShareError::Share);
        }
        if self.waiting >= bounds.waiting && !self.evict_waiter(key) {
            return Err(ShareError::Full);
        }
        let (grant, granted) = oneshot::channel();
        let number = self.next_waiter;
        self.next_waiter += 1;
        self.waiting += 1;
        self.with_group(key, |of_group| of_group.waiting += 1);
        self.keys.entry(key.clone()).or_default().waiting.push_back((number, grant));
        self.line_up(key);
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
        if holdings.waiting.is_empty() && holdings.is_in_order {
            holdings.is_in_order = false;
            self.order.remove(&key);
        }
        self.waiting -= 1;
        self.with_group(&key, |of_group| of_group.waiting -= 1);
        self.forget_if_idle(&key);
        true
    }

    fn line_up(&mut self, key: &K) {
        if let Some(holdings) = self.keys.get_mut(key)
            && !holdings.is_in_order
            && !holdings.waiting.is_empty()
        {
            holdings.is_in_order = true;
            self.order.push(key.clone());
        }
    }

    fn release(&mut self, key: &K, bounds: &TurnBounds) {
        let had_its_all = self.allows(key, bounds) == Err(ShareError::Share);
        self.taken -= 1;
        if let Some(holdings) = self.keys.get_mut(key) {
            holdings.taken -= 1;
        }
        self.with_group(key, |of_group| of_group.taken -= 1);
        // The other keys have waited for longer than this one has been below its limit.
        if had_its_all {
            self.order.move_back(key);
        }
        self.forget_if_idle(key);
        self.grant(bounds);
    }

    /// Gives free turns to waiting keys within their shares, one for each group before any gets a second.
    fn grant(&mut self, bounds: &TurnBounds) {
        // A share only shrinks as turns are granted, so skipped keys need no second check.
        let mut at = 0;
        while self.taken < bounds.total {
            let mut order = std::mem::take(&mut self.order);
            let next = order.next(&mut at, |key| self.allows_group(key, bounds), |key| self.allows_key(key, bounds));
            self.order = order;
            let Some(key) = next else { return };
            let Some(holdings) = self.keys.get_mut(&key) else { continue };
            holdings.is_in_order = false;
            if let Some((_, waiter)) = holdings.waiting.pop_front() {
                self.waiting -= 1;
                self.with_group(&key, |of_group| of_group.waiting -= 1);
                // A waiter that was dropped leaves the queue by itself.
                if waiter.send(()).is_ok() {
                    self.hold(&key);
                }
            }
            self.line_up(&key);
            self.forget_if_idle(&key);
        }
    }

    fn leave(&mut self, key: &K, number: u64) {
        if let Some(holdings) = self.keys.get_mut(key) {
            let before = holdings.waiting.len();
            holdings.waiting.retain(|&(waiter, _)| waiter != number);
            let left = before - holdings.waiting.len();
            if holdings.waiting.is_empty() && holdings.is_in_order {
                holdings.is_in_order = false;
                self.order.remove(key);
            }
            self.waiting -= left;
            if left > 0 {
                self.with_group(key, |of_group| of_group.waiting -= left);
            }
        }
        self.forget_if_idle(key);
    }

    fn forget_if_idle(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(|holdings| holdings.taken == 0 && holdings.waiting.is_empty()) {
            self.keys.remove(key);
        }
    }
}

impl<K: Payer> TurnWaiter<'_, K> {
    async fn granted(mut self) -> Result<TurnPermit<K>, ShareError> {
        // The sender stays in the queue for as long as this waiter does, unless a newcomer pushes it out.
        (&mut self.granted).await.map_err(|_| ShareError::Full)?;
        Ok(self.shared.turn(self.key))
    }
}

impl<K: Payer> Drop for TurnWaiter<'_, K> {
    fn drop(&mut self) {
        let (key, number, granted) = (self.key, self.number, &mut self.granted);
        self.shared.change(|state, bounds| {
            // A turn granted at the moment of giving up goes to the next waiter.
            if granted.try_recv().is_ok() {
                state.release(key, bounds);
            } else {
                state.leave(key, number);
            }
        });
    }
}

impl<K: Payer> Drop for TurnPermit<K> {
    fn drop(&mut self) {
        self.shared.change(|state, bounds| state.release(&self.key, bounds));
    }
}

impl<K: Payer> fmt::Debug for TurnQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").field("bounds", &self.shared.bounds).field("taken", &self.in_use()).finish()
    }
}

impl<K: Payer + fmt::Debug> fmt::Debug for TurnPermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests;
