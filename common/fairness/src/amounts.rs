//! Limits an amount that grows during use, such as the bytes of bodies in progress, in total and per key. There is no
//! waiting: a caller that waits for more while holding a part would keep that part from others.

use std::{
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ahash::HashMap;

use super::{Payer, ShareError, payer::GROUP_DIVISOR};

/// A shared amount. Clones share it.
pub struct AmountLimit<K: Payer> {
    shared: Arc<SharedAmount<K>>,
}

/// A part of an amount, returned on drop.
#[must_use = "what is dropped is given back"]
pub struct HeldAmount<K: Payer> {
    shared: Arc<SharedAmount<K>>,
    key: K,
    group: Option<K::Group>,
    amount: u64,
}

struct SharedAmount<K: Payer> {
    total: u64,
    share: u64,
    state: Mutex<AmountState<K>>,
}

struct AmountState<K: Payer> {
    held: u64,
    keys: HashMap<K, u64>,
    groups: HashMap<K::Group, u64>,
}

impl<K: Payer> Clone for AmountLimit<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Payer> AmountLimit<K> {
    /// Creates an amount of which all keys together hold at most `total`, and one key at most `share`.
    pub fn new(total: u64, share: u64) -> Self {
        let state = Mutex::new(AmountState { held: 0, keys: HashMap::default(), groups: HashMap::default() });
        Self { shared: Arc::new(SharedAmount { total, share, state }) }
    }

    /// Starts with nothing held; add to it with [`HeldAmount::grow`].
    pub fn hold(&self, key: K) -> HeldAmount<K> {
        HeldAmount { shared: self.shared.clone(), group: key.group(), key, amount: 0 }
    }

    /// Returns the amount held by all keys.
    pub fn held(&self) -> u64 {
        self.shared.state().held
    }
}

impl<K: Payer> HeldAmount<K> {
    /// Takes `by` more. If that is refused, nothing changes.
    pub fn grow(&mut self, by: u64) -> Result<(), ShareError> {
        if by == 0 {
            return Ok(());
        }
        let mut state = self.shared.state();
        let in_all = state.held.saturating_add(by);
        let SharedAmount { total, share, .. } = *self.shared;
        let its = state.keys.get(&self.key).copied().unwrap_or_default().saturating_add(by);
        let of_group = self.group.as_ref().map(|group| {
            let held = state.groups.get(group).copied().unwrap_or_default();
            (group.clone(), held.saturating_add(by))
        });
        let group_share = share.max(total / GROUP_DIVISOR as u64);
        if its > share || of_group.as_ref().is_some_and(|(_, held)| *held > group_share) {
            return Err(ShareError::Share);
        }
        if in_all > total {
            return Err(ShareError::Full);
        }
        state.held = in_all;
        state.keys.insert(self.key.clone(), its);
        state.groups.extend(of_group);
        self.amount += by;
        Ok(())
    }
}

impl<K: Payer> SharedAmount<K> {
    fn state(&self) -> MutexGuard<'_, AmountState<K>> {
        // Nothing panics while the lock is held, so its contents are consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Payer> Drop for HeldAmount<K> {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut state = self.shared.state();
        state.held -= self.amount;
        give_back(&mut state.keys, &self.key, self.amount);
        if let Some(group) = &self.group {
            give_back(&mut state.groups, group, self.amount);
        }
    }
}

fn give_back<K: Eq + Hash>(held: &mut HashMap<K, u64>, key: &K, amount: u64) {
    if let Some(its) = held.get_mut(key) {
        *its -= amount;
        if *its == 0 {
            held.remove(key);
        }
    }
}

impl<K: Payer> fmt::Debug for AmountLimit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedAmount { total, share, .. } = &*self.shared;
        let held = self.shared.state().held;
        f.debug_struct("Amounts").field("total", total).field("share", share).field("held", &held).finish()
    }
}

impl<K: Payer + fmt::Debug> fmt::Debug for HeldAmount<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("key", &self.key).field("amount", &self.amount).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_share_and_all_have_the_total() {
        let amounts = AmountLimit::new(10, 6);
        let (mut first, mut second, mut other) = (amounts.hold("a"), amounts.hold("a"), amounts.hold("b"));
        assert_eq!((first.grow(4), second.grow(3)), (Ok(()), Err(ShareError::Share)));
        assert_eq!((second.grow(2), other.grow(5)), (Ok(()), Err(ShareError::Full)));
        assert_eq!((other.grow(4), amounts.held()), (Ok(()), 10));
        drop(first);
        assert_eq!((second.grow(4), amounts.held()), (Ok(()), 10));
        assert_eq!(second.grow(u64::MAX), Err(ShareError::Share));
    }

    #[test]
    fn a_group_has_a_share_too() {
        let amounts = AmountLimit::new(40, 6);
        let (mut first, mut second, mut other) =
            (amounts.hold("block/a"), amounts.hold("block/b"), amounts.hold("other/a"));
        assert_eq!((first.grow(6), second.grow(5), second.grow(4)), (Ok(()), Err(ShareError::Share), Ok(())));
        assert_eq!(other.grow(6), Ok(()));
        drop((first, second, other));
        let state = amounts.shared.state();
        assert!(state.keys.is_empty() && state.groups.is_empty());
    }

    #[test]
    fn what_is_dropped_is_given_back_and_its_key_forgotten() {
        let amounts = AmountLimit::new(10, 10);
        let mut held = amounts.hold("a");
        held.grow(10).unwrap();
        drop((held, amounts.hold("b")));
        assert_eq!(amounts.held(), 0);
        assert!(amounts.shared.state().keys.is_empty());
    }
}
