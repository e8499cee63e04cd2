//! Tracks an account's usage for the headers of completions that were admitted without Redis.

use std::sync::atomic::{AtomicU64, Ordering};

use live::budgets::BudgetUsage;

/// An account's usage when Redis made some spares, plus this edge's requests that have used them since. Excludes other
/// edges' admissions since then, and changes to earlier completions.
pub(super) struct UsageTally {
    requests: AtomicU64,
    tokens: AtomicU64,
}

impl UsageTally {
    /// Starts from the usage in Redis, including the reservation that the spares were made with.
    pub(super) fn new(used: BudgetUsage) -> Self {
        Self { requests: used.requests.into(), tokens: used.tokens.into() }
    }

    /// Adds a reservation. Returns the requests of this minute and the tokens of today, including it.
    pub(super) fn reserve(&self, tokens: u64) -> (u64, u64) {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        (requests, self.change(|all| all.saturating_add(tokens)))
    }

    pub(super) fn settle(&self, reserved: u64, used: u64) {
        self.change(|all| all.saturating_add(used).saturating_sub(reserved));
    }

    fn change(&self, changed: impl Fn(u64) -> u64) -> u64 {
        let change = |all| Some(changed(all));
        self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).map_or(0, changed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_used_takes_the_place_of_what_was_reserved() {
        let tally = UsageTally::new(BudgetUsage {
            requests: 3,
            frees_in: Duration::ZERO,
            resets_in: Duration::ZERO,
            tokens: 500,
        });
        assert_eq!(tally.reserve(100), (4, 600));
        tally.settle(300, 20);
        assert_eq!(tally.reserve(100), (5, 420));
        tally.settle(100, 150);
        tally.settle(100, 0);
        assert_eq!(tally.reserve(0), (6, 370));
    }
}
