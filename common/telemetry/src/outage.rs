//! Logs repeated failures, such as calls to an unavailable server: one line at the beginning, one a minute while they
//! last, and one at the end, if that is noticed.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

const SAY_EVERY: Duration = Duration::from_mins(1);

/// A failure that may last. Starts as over. Kept in a `static`, or beside whatever may fail.
#[derive(Debug, Default)]
pub struct OutageLog(Mutex<Option<CurrentOutage>>);

#[derive(Debug)]
struct CurrentOutage {
    since: Instant,
    said: Instant,
    left_out: u64,
}

/// The contents of a due log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutageLine {
    /// The time since the failure began; zero at its beginning.
    pub lasted: Duration,
    /// The number of failures since the last line.
    pub left_out: u64,
}

impl OutageLog {
    /// Creates a failure that is over.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Records a failure. Returns the contents of the log line if one is due.
    pub fn record_failure(&self) -> Option<OutageLine> {
        self.fails_at(Instant::now())
    }

    /// Records a success. Returns how long the failure lasted if it has just ended.
    pub fn record_success(&self) -> Option<Duration> {
        self.ends_at(Instant::now())
    }

    fn fails_at(&self, now: Instant) -> Option<OutageLine> {
        let mut state = self.state();
        let Some(current) = &mut *state else {
            *state = Some(CurrentOutage { since: now, said: now, left_out: 0 });
            return Some(OutageLine { lasted: Duration::ZERO, left_out: 0 });
        };
        if now.saturating_duration_since(current.said) < SAY_EVERY {
            current.left_out += 1;
            return None;
        }
        current.said = now;
        let lasted = now.saturating_duration_since(current.since);
        Some(OutageLine { lasted, left_out: std::mem::take(&mut current.left_out) })
    }

    fn ends_at(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.state().take()?.since))
    }

    fn state(&self) -> MutexGuard<'_, Option<CurrentOutage>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_when_it_begins_each_minute_and_when_it_ends() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let outage = OutageLog::new();
        assert_eq!(outage.ends_at(at(0)), None);
        let said: Vec<_> = (0..150)
            .filter_map(|second| outage.fails_at(at(second)))
            .map(|line| (line.lasted.as_secs(), line.left_out))
            .collect();
        assert_eq!(said, [(0, 0), (60, 59), (120, 59)]);
        assert_eq!(outage.ends_at(at(150)), Some(Duration::from_secs(150)));
        assert_eq!(outage.ends_at(at(151)), None);
        assert_eq!(outage.fails_at(at(152)), Some(OutageLine { lasted: Duration::ZERO, left_out: 0 }));
    }

    #[test]
    fn what_pauses_for_longer_than_a_minute_is_said_again() {
        let (outage, start) = (OutageLog::new(), Instant::now());
        let said = |seconds| outage.fails_at(start + Duration::from_secs(seconds)).map(|line| line.left_out);
        assert_eq!([0, 1, 59, 60, 61, 130].map(said), [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
