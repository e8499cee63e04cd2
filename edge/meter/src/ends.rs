//! Counts an account's ended completions, to detect judgements made before the last of them.

use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use domain::Account;

/// Counters shared by accounts with the same hash: an account may see another's end, but never misses its own.
pub(super) struct EndCounters {
    counters: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl EndCounters {
    pub(super) fn new() -> Self {
        let counters = std::iter::repeat_with(AtomicU64::default).take(limits::END_COUNTERS).collect();
        Self { counters, hasher: RandomState::new() }
    }

    pub(super) fn add(&self, account: &Account) {
        if let Some(counter) = self.counter(account) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a number that grows with each end of the account's completions.
    pub(super) fn count(&self, account: &Account) -> u64 {
        self.counter(account).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    fn counter(&self, account: &Account) -> Option<&AtomicU64> {
        let hash = usize::try_from(self.hasher.hash_one(account) >> 32).unwrap_or_default();
        self.counters.get(hash % self.counters.len().max(1))
    }
}
