//! The time by Redis's clock, which alone decides the day, month and minute of a completion.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use domain::{Clock, Timestamp};

/// Redis's clock as known to this edge: its own clock, corrected by the last time from Redis.
pub(super) struct RedisClock {
    own: Clock,
    /// How far Redis's clock is ahead of ours, in milliseconds.
    ahead: AtomicI64,
    has_learned: AtomicBool,
}

impl RedisClock {
    pub(super) fn new(own: Clock) -> Self {
        Self { own, ahead: AtomicI64::new(0), has_learned: AtomicBool::new(false) }
    }

    /// Returns the time by Redis's clock, accurate to the response time of Redis, or `None` before its first response.
    pub(super) fn now(&self) -> Option<Timestamp> {
        let has_learned = self.has_learned.load(Ordering::Acquire);
        let now = || millis(self.own.now()).saturating_add(self.ahead.load(Ordering::Relaxed));
        has_learned.then(|| Timestamp::from_unix_millis(now()))
    }

    /// Records that Redis's clock is at `now`. Returns how far our clock is ahead, in seconds.
    pub(super) fn update(&self, now: Timestamp) -> f64 {
        let own = self.own.now();
        self.ahead.store(millis(now).saturating_sub(millis(own)), Ordering::Relaxed);
        self.has_learned.store(true, Ordering::Release);
        own.since(now).as_secs_f64() - now.since(own).as_secs_f64()
    }
}

fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.unix_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_is_wrong_by_a_day_is_corrected() {
        let real = Clock::system();
        for (own, ahead) in
            [(real.now() + Duration::from_hours(24), 86_400.0), (real.now() - Duration::from_hours(24), -86_400.0)]
        {
            let clock = RedisClock::new(Clock::from_fn(move || own));
            assert_eq!(clock.now(), None, "our own is no answer");
            let now = real.now();
            assert!((clock.update(now) - ahead).abs() < 60.0);
            assert_eq!(clock.now().map(Timestamp::unix_millis), Some(now.unix_millis()));
        }
    }
}
