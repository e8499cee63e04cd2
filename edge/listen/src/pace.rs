//! The minimum pace at which a visitor has to read a ready response: a number of bytes within an amount of waiting.

use std::time::Duration;

use limits::{STALL, STALL_BYTES};

/// The bytes that a visitor has read, and the wait for them. Waiting counts only while there is something to read.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ReadPace {
    waited: Duration,
    taken: u64,
}

impl ReadPace {
    pub(super) fn remaining(&self) -> Duration {
        STALL.saturating_sub(self.waited)
    }

    /// Returns whether no waiting counts against the visitor.
    pub(super) fn is_fresh(&self) -> bool {
        self.waited.is_zero()
    }

    /// Records that `bytes` were read after a wait of `waited`.
    pub(super) fn record_read(&mut self, bytes: u64, waited: Duration) {
        self.waited += waited;
        self.taken += bytes;
        if self.taken >= STALL_BYTES {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_is_no_pace_and_a_pause_is_none_either() {
        let mut pace = ReadPace::default();
        for _ in 0..29 {
            pace.record_read(1, Duration::from_secs(1));
        }
        assert_eq!(pace.remaining(), Duration::from_secs(1));
        pace.record_read(0, Duration::from_secs(5));
        assert_eq!(pace.remaining(), Duration::ZERO);

        let mut pace = ReadPace::default();
        for _ in 0..1_000 {
            pace.record_read(STALL_BYTES / 20, Duration::from_secs(1));
            assert!(pace.remaining() >= STALL / 3, "{pace:?}");
        }
    }
}
