//! Room for things of different sizes, in all and for each key, with waiting: memory for bodies, say. What is needed is taken
//! before anything is held, so that nobody who waits keeps a part from the others.
//!
//! The keys that wait take turns, group by group; the keys of a group together have a quarter, or one key's share if that is more. What is larger than a key's share is let in when the key holds nothing else, and what is
//! larger than the whole counts as the whole: it is there alone.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ahash::HashMap;
use tokio::{sync::oneshot, time::timeout};

use super::{Payer, Refused, lines::Lines, payer::GROUP_DIVISOR};

/// The bounds of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomBounds {
    /// What all keys together hold.
    pub total: u64,
    /// What one key holds, unless it is a single thing.
    pub share: u64,
    /// Those who wait.
    pub waiting: usize,
    /// Those of one key who wait.
    pub waiting_share: usize,
}

/// A room that many share. Clones share it.
pub struct Room<K: Payer> {
    shared: Arc<Shared<K>>,
}

/// A place in a room, given back when it is dropped.
#[must_use = "a place that is dropped is given back"]
pub struct Place<K: Payer> {
    shared: Arc<Shared<K>>,
    key: K,
    size: u64,
}

struct Shared<K: Payer> {
    bounds: RoomBounds,
    state: Mutex<State<K>>,
}

struct State<K: Payer> {
    held: u64,
    waiting: usize,
    next_waiter: u64,
    /// The keys that hold something or wait.
    keys: HashMap<K, Holdings>,
    /// The groups whose keys hold something or wait.
    groups: HashMap<K::Group, OfGroup>,
    /// The keys that wait, in the order of their turns.
    order: Lines<K>,
}

/// Numbers of a group, over all its keys.
#[derive(Default)]
struct OfGroup {
    held: u64,
    waiting: usize,
}

#[derive(Default)]
struct Holdings {
    held: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    number: u64,
    size: u64,
    grant: oneshot::Sender<()>,
}

/// One who waits, and leaves the queue when it is dropped.
struct Waiter<'r, K: Payer> {
    shared: &'r Arc<Shared<K>>,
    key: &'r K,
    number: u64,
    size: u64,
    granted: oneshot::Receiver<()>,
}

impl<K: Payer> Clone for Room<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Payer> Room<K> {
    /// A room within `bounds` that is empty.
    pub fn new(bounds: RoomBounds) -> Self {
        let (held, waiting, next_waiter, keys, groups, order) = Default::default();
        let state = State { held, waiting, next_waiter, keys, groups, order };
        Self { shared: Arc::new(Shared { bounds, state: Mutex::new(state) }) }
    }

    /// Takes a place of this size, and waits for it up to `patience`. A caller that gives up leaves the queue.
    pub async fn take(&self, key: &K, size: u64, patience: Duration) -> Result<Place<K>, Refused> {
        let bounds = &self.shared.bounds;
        let size = size.min(bounds.total);
        let (number, granted) = {
            let mut state = self.shared.state();
            let queued = state.enqueue(key, size, bounds)?;
            state.grant(bounds);
            queued
        };
        let waiter = Waiter { shared: &self.shared, key, number, size, granted };
        timeout(patience, waiter.granted()).await.unwrap_or(Err(Refused::Full))
    }

    /// What all keys hold together.
    pub fn held(&self) -> u64 {
        self.shared.state().held
    }
}

impl<K: Payer> Place<K> {
    /// Its size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Makes it as large as `size`, if it is smaller, without waiting. Nothing changes when that is refused.
    pub fn grow_to(&mut self, size: u64) -> Result<(), Refused> {
        let bounds = &self.shared.bounds;
        let size = size.min(bounds.total);
        let Some(by) = size.checked_sub(self.size).filter(|by| *by > 0) else { return Ok(()) };
        let mut state = self.shared.state();
        let its = state.keys.get(&self.key).map_or(0, |holdings| holdings.held);
        let others = state.of_group(&self.key, |of_group| of_group.held).saturating_sub(self.size);
        if (its > self.size && its + by > bounds.share) || (others > 0 && others + size > bounds.group_share()) {
            return Err(Refused::Share);
        }
        if state.held + by > bounds.total {
            return Err(Refused::Full);
        }
        state.hold(&self.key, by);
        drop(state);
        self.size = size;
        Ok(())
    }
}

impl<K: Payer> Shared<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        // Nothing panics while the lock is held; what it guards is whole in any case.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RoomBounds {
    /// What the keys of one group hold, unless it is a single thing.
    fn group_share(&self) -> u64 {
        self.share.max(self.total / GROUP_DIVISOR as u64)
    }
}

impl<K: Payer> State<K> {
    fn hold(&mut self, key: &K, size: u64) {
        self.held += size;
        if let Some(holdings) = self.keys.get_mut(key) {
            holdings.held += size;
        }
        self.of_group(key, |of_group| of_group.held += size);
    }

    /// Reads or changes the numbers of a key's group; those of a key without one are nothing.
    fn of_group<T: Default>(&mut self, key: &K, with: impl FnOnce(&mut OfGroup) -> T) -> T {
        let Some(group) = key.group() else { return T::default() };
        let of_group = self.groups.entry(group.clone()).or_default();
        let result = with(of_group);
        if of_group.held == 0 && of_group.waiting == 0 {
            self.groups.remove(&group);
        }
        result
    }

    fn enqueue(&mut self, key: &K, size: u64, bounds: &RoomBounds) -> Result<(u64, oneshot::Receiver<()>), Refused> {
        if self.waiting >= bounds.waiting {
            return Err(Refused::Full);
        }
        let of_group = self.of_group(key, |of_group| of_group.waiting);
        if of_group > 0 && of_group >= bounds.waiting_share.max(bounds.waiting / GROUP_DIVISOR) {
            return Err(Refused::Share);
        }
        let holdings = self.keys.entry(key.clone()).or_default();
        if holdings.waiting.len() >= bounds.waiting_share {
            return Err(Refused::Share);
        }
        let (grant, granted) = oneshot::channel();
        let number = self.next_waiter;
        self.next_waiter += 1;
        self.waiting += 1;
        if holdings.waiting.is_empty() {
            self.order.push(key.clone());
        }
        holdings.waiting.push_back(Waiting { number, size, grant });
        self.of_group(key, |of_group| of_group.waiting += 1);
        Ok((number, granted))
    }

    /// Lets in those who wait, a place to each key before any gets a second. What does not fit yet keeps what is behind it
    /// waiting, or it would never fit; what only its key's or group's share keeps out holds up nobody else.
    fn grant(&mut self, bounds: &RoomBounds) {
        let mut at = 0;
        loop {
            let mut order = std::mem::take(&mut self.order);
            let first = order.peek(&mut at, |key| self.is_within_share(key, bounds));
            let fits = first.is_some_and(|key| self.held + self.wanted(key) <= bounds.total);
            let next = if fits { order.take(at, |key| self.is_within_share(key, bounds)) } else { None };
            self.order = order;
            let Some(key) = next else { return };
            let Some(holdings) = self.keys.get_mut(&key) else { continue };
            if let Some(first) = holdings.waiting.pop_front() {
                self.waiting -= 1;
                let is_left = !holdings.waiting.is_empty();
                self.of_group(&key, |of_group| of_group.waiting -= 1);
                // One who has gone is about to leave the queue by itself.
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

    /// The size of what a key waits for first.
    fn wanted(&self, key: &K) -> u64 {
        self.keys.get(key).and_then(|holdings| holdings.waiting.front()).map_or(0, |first| first.size)
    }

    /// Whether what a key waits for first is within its share and its group's.
    fn is_within_share(&self, key: &K, bounds: &RoomBounds) -> bool {
        let (size, held) = (self.wanted(key), self.keys.get(key).map_or(0, |holdings| holdings.held));
        let of_group = key.group().and_then(|group| self.groups.get(&group)).map_or(0, |of_group| of_group.held);
        (held == 0 || held + size <= bounds.share) && (of_group == 0 || of_group + size <= bounds.group_share())
    }

    fn give_back(&mut self, key: &K, size: u64, bounds: &RoomBounds) {
        self.held -= size;
        if let Some(holdings) = self.keys.get_mut(key) {
            holdings.held -= size;
        }
        self.of_group(key, |of_group| of_group.held -= size);
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
            self.of_group(key, |of_group| of_group.waiting -= left);
        }
        self.forget_if_idle(key);
        // It may have kept smaller ones waiting.
        self.grant(bounds);
    }

    fn forget_if_idle(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(|holdings| holdings.held == 0 && holdings.waiting.is_empty()) {
            self.keys.remove(key);
        }
    }
}

impl<K: Payer> Waiter<'_, K> {
    async fn granted(mut self) -> Result<Place<K>, Refused> {
        // The sender stays in the queue for as long as this waiter does.
        (&mut self.granted).await.map_err(|_| Refused::Full)?;
        Ok(Place { shared: self.shared.clone(), key: self.key.clone(), size: self.size })
    }
}

impl<K: Payer> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // A place that was given in the very moment of giving up goes to the next.
        if self.granted.try_recv().is_ok() {
            state.give_back(self.key, self.size, &self.shared.bounds);
        } else {
            state.leave(self.key, self.number, &self.shared.bounds);
        }
    }
}

impl<K: Payer> Drop for Place<K> {
    fn drop(&mut self) {
        self.shared.state().give_back(&self.key, self.size, &self.shared.bounds);
    }
}

impl<K: Payer> fmt::Debug for Room<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("bounds", &self.shared.bounds).field("held", &self.held()).finish()
    }
}

impl<K: Payer + fmt::Debug> fmt::Debug for Place<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("key", &self.key).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::Mutex,
        task::{Context, Poll, Waker},
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn room() -> Room<&'static str> {
        Room::new(RoomBounds { total: 10, share: 6, waiting: 4, waiting_share: 2 })
    }

    /// Whether what is begun waits.
    fn waits(taking: &mut Pin<Box<impl Future>>) -> bool {
        matches!(taking.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_waited_for_and_given_back() {
        let room = room();
        let first = room.take(&"a", 6, PATIENCE).await.unwrap();
        let other = room.take(&"b", 4, PATIENCE).await.unwrap();
        let mut third = Box::pin(room.take(&"c", 5, PATIENCE));
        assert!(waits(&mut third));
        // It does not fit, and what would is behind it: or it would wait for ever.
        drop(other);
        let mut small = Box::pin(room.take(&"d", 2, PATIENCE));
        assert!(waits(&mut small));
        drop(first);
        let (third, small) = (third.await.unwrap(), small.await.unwrap());
        assert_eq!((room.held(), third.size(), small.size()), (7, 5, 2));
        drop((third, small));
        assert_eq!(room.held(), 0);
        assert!(room.shared.state().keys.is_empty() && room.shared.state().order.len() == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_has_its_share_or_one_thing_and_holds_up_nobody() {
        let room = room();
        let first = room.take(&"a", 5, PATIENCE).await.unwrap();
        let mut second = Box::pin(room.take(&"a", 2, PATIENCE));
        assert!(waits(&mut second));
        let other = room.take(&"b", 3, PATIENCE).await.unwrap();
        drop((first, other));
        drop(second.await.unwrap());
        // Alone it may be larger than a share, and than everything.
        for size in [9, 10, 1_000] {
            let alone = room.take(&"a", size, PATIENCE).await.unwrap();
            assert_eq!(alone.size(), size.min(10));
        }
        assert_eq!(room.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_bounded_in_time_and_number() {
        let room = room();
        let all = room.take(&"a", 10, PATIENCE).await.unwrap();
        assert_eq!(room.take(&"b", 1, PATIENCE).await.unwrap_err(), Refused::Full, "in time");
        let mut waiting: Vec<_> =
            [&"b", &"b", &"c", &"d"].into_iter().map(|key| Box::pin(room.take(key, 1, PATIENCE))).collect();
        assert!(waiting.iter_mut().all(waits));
        assert_eq!(room.take(&"e", 1, PATIENCE).await.unwrap_err(), Refused::Full);
        waiting.truncate(3);
        assert_eq!(room.take(&"b", 1, PATIENCE).await.unwrap_err(), Refused::Share);
        drop((waiting, all));
        assert_eq!(room.held(), 0);
        assert!(room.shared.state().keys.is_empty());
    }

    #[tokio::test]
    async fn keys_take_turns() {
        let room = Room::new(RoomBounds { total: 1, share: 1, waiting: 9, waiting_share: 9 });
        let held = room.take(&"a", 1, PATIENCE).await.unwrap();
        let served = Arc::new(Mutex::new(Vec::new()));
        let waiting: Vec<_> = ["a", "a", "b", "c"]
            .into_iter()
            .map(|key| {
                let (room, served) = (room.clone(), served.clone());
                tokio::spawn(async move {
                    let place = room.take(&key, 1, PATIENCE).await.unwrap();
                    served.lock().unwrap().push(key);
                    drop(place);
                })
            })
            .collect();
        while room.shared.state().waiting < 4 {
            tokio::task::yield_now().await;
        }
        drop(held);
        for task in waiting {
            task.await.unwrap();
        }
        // The second of one key comes after the first of all others.
        assert_eq!(*served.lock().unwrap(), ["a", "b", "c", "a"]);
    }

    #[tokio::test]
    async fn a_place_grows_without_waiting() {
        let room = room();
        let mut place = room.take(&"a", 2, PATIENCE).await.unwrap();
        place.grow_to(8).unwrap();
        place.grow_to(1).unwrap();
        assert_eq!((place.size(), room.held()), (8, 8));
        let mut other = room.take(&"b", 1, PATIENCE).await.unwrap();
        assert_eq!((other.grow_to(4), room.held()), (Err(Refused::Full), 9));
        let mut second = room.take(&"b", 1, PATIENCE).await.unwrap();
        drop(place);
        assert_eq!((second.grow_to(6), second.grow_to(5)), (Err(Refused::Share), Ok(())));
        drop((other, second));
        assert_eq!(room.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_has_one_share_and_its_keys_hold_up_nobody() {
        let room = Room::new(RoomBounds { total: 12, share: 4, waiting: 8, waiting_share: 2 });
        let first = room.take(&"group/a", 3, PATIENCE).await.unwrap();
        let mut second = Box::pin(room.take(&"group/b", 3, PATIENCE));
        let mut third = Box::pin(room.take(&"group/c", 1, PATIENCE));
        assert!(waits(&mut second) && !waits(&mut third), "a small one fits beside the first");
        let mut other = room.take(&"other", 4, PATIENCE).await.unwrap();
        assert_eq!(other.grow_to(5), Ok(()), "a single thing");
        drop((first, third));
        let second = second.await.unwrap();
        assert_eq!(room.held(), 8);
        drop((second, other));
        let state = room.shared.state();
        assert!(state.held == 0 && state.keys.is_empty() && state.groups.is_empty() && state.order.len() == 0);
    }
}
