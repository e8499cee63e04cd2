//! Room for things of different sizes, in all and for each key, with waiting: memory for bodies, say. What is needed is taken
//! before anything is held, so that nobody who waits keeps a part from the others.
//!
//! The keys that wait take turns. What is larger than a key's share is let in when the key holds nothing else, and what is
//! larger than the whole counts as the whole: it is there alone.

use std::{
    collections::VecDeque,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ahash::HashMap;
use tokio::{sync::oneshot, time::timeout};

use super::Refused;

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
pub struct Room<K: Clone + Eq + Hash> {
    shared: Arc<Shared<K>>,
}

/// A place in a room, given back when it is dropped.
#[must_use = "a place that is dropped is given back"]
pub struct Place<K: Clone + Eq + Hash> {
    shared: Arc<Shared<K>>,
    key: K,
    size: u64,
}

struct Shared<K> {
    bounds: RoomBounds,
    state: Mutex<State<K>>,
}

struct State<K> {
    held: u64,
    waiting: usize,
    next_waiter: u64,
    /// The keys that hold something or wait.
    keys: HashMap<K, Holdings>,
    /// The keys that wait, in the order of their turns. Each is there once.
    order: VecDeque<K>,
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
struct Waiter<'r, K: Clone + Eq + Hash> {
    shared: &'r Arc<Shared<K>>,
    key: &'r K,
    number: u64,
    size: u64,
    granted: oneshot::Receiver<()>,
}

impl<K: Clone + Eq + Hash> Clone for Room<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Clone + Eq + Hash> Room<K> {
    /// A room within `bounds` that is empty.
    pub fn new(bounds: RoomBounds) -> Self {
        let (held, waiting, next_waiter, keys, order) = Default::default();
        let state = State { held, waiting, next_waiter, keys, order };
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

impl<K: Clone + Eq + Hash> Place<K> {
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
        if its > self.size && its + by > bounds.share {
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

impl<K> Shared<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        // Nothing panics while the lock is held; what it guards is whole in any case.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn hold(&mut self, key: &K, size: u64) {
        self.held += size;
        if let Some(holdings) = self.keys.get_mut(key) {
            holdings.held += size;
        }
    }

    fn enqueue(&mut self, key: &K, size: u64, bounds: &RoomBounds) -> Result<(u64, oneshot::Receiver<()>), Refused> {
        if self.waiting >= bounds.waiting {
            return Err(Refused::Full);
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
            self.order.push_back(key.clone());
        }
        holdings.waiting.push_back(Waiting { number, size, grant });
        Ok((number, granted))
    }

    /// Lets in those who wait, a place to each key before any gets a second. What does not fit yet keeps what is behind it
    /// waiting, or it would never fit; what only its key's share keeps out holds up nobody else.
    fn grant(&mut self, bounds: &RoomBounds) {
        let mut at = 0;
        while let Some(key) = self.order.get(at).cloned() {
            let Some(holdings) = self.keys.get_mut(&key) else { return };
            let Some(first) = holdings.waiting.front() else { return };
            if holdings.held > 0 && holdings.held + first.size > bounds.share {
                at += 1;
                continue;
            }
            if self.held + first.size > bounds.total {
                return;
            }
            self.order.remove(at);
            if let Some(first) = holdings.waiting.pop_front() {
                self.waiting -= 1;
                // One who has gone is about to leave the queue by itself.
                if first.grant.send(()).is_ok() {
                    holdings.held += first.size;
                    self.held += first.size;
                }
            }
            if !holdings.waiting.is_empty() {
                self.order.push_back(key.clone());
            }
            self.forget_if_idle(&key);
        }
    }

    fn give_back(&mut self, key: &K, size: u64, bounds: &RoomBounds) {
        self.held -= size;
        if let Some(holdings) = self.keys.get_mut(key) {
            holdings.held -= size;
        }
        self.forget_if_idle(key);
        self.grant(bounds);
    }

    fn leave(&mut self, key: &K, number: u64, bounds: &RoomBounds) {
        if let Some(holdings) = self.keys.get_mut(key) {
            let before = holdings.waiting.len();
            holdings.waiting.retain(|waiting| waiting.number != number);
            self.waiting -= before - holdings.waiting.len();
            if holdings.waiting.is_empty() {
                self.order.retain(|waiting| waiting != key);
            }
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

impl<K: Clone + Eq + Hash> Waiter<'_, K> {
    async fn granted(mut self) -> Result<Place<K>, Refused> {
        // The sender stays in the queue for as long as this waiter does.
        (&mut self.granted).await.map_err(|_| Refused::Full)?;
        Ok(Place { shared: self.shared.clone(), key: self.key.clone(), size: self.size })
    }
}

impl<K: Clone + Eq + Hash> Drop for Waiter<'_, K> {
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

impl<K: Clone + Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        self.shared.state().give_back(&self.key, self.size, &self.shared.bounds);
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Room<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("bounds", &self.shared.bounds).field("held", &self.held()).finish()
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Place<K> {
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
        assert!(room.shared.state().keys.is_empty() && room.shared.state().order.is_empty());
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
}
