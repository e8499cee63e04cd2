//! What an account has used, for the headers of completions that Redis was not asked about.

use std::sync::atomic::{AtomicU64, Ordering};

use live::budgets::Used;

/// What an account had used when Redis made some spares, and what the edge knows of those who have used them since. What other
/// edges admit meanwhile is not in it, nor is what began before.
pub(super) struct Tally {
    requests: AtomicU64,
    tokens: AtomicU64,
}

impl Tally {
    /// Begins with what Redis said, the reservation that the spares were made with included.
    pub(super) fn new(used: Used) -> Self {
        Self { requests: used.requests.into(), tokens: used.tokens.into() }
    }

    /// Adds a reservation, and returns the requests of the minute and the tokens of the day with it.
    pub(super) fn reserve(&self, tokens: u64) -> (u64, u64) {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        (requests, self.change(|all| all.saturating_add(tokens)))
    }

    /// Replaces what was reserved by what was used.
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
        let tally = Tally::new(Used { requests: 3, frees_in: Duration::ZERO, resets_in: Duration::ZERO, tokens: 500 });
        assert_eq!(tally.reserve(100), (4, 600));
        tally.settle(300, 20);
        assert_eq!(tally.reserve(100), (5, 420));
        tally.settle(100, 150);
        tally.settle(100, 0);
        assert_eq!(tally.reserve(0), (6, 370));
    }
}
