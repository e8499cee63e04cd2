//! Logging of what lasts: one line when a failure begins, one a minute while it lasts, one when it has ended.

use std::time::{Duration, Instant};

/// Interval between two lines about a failure that lasts.
pub const SAY_EVERY: Duration = Duration::from_mins(1);

/// A failure that may last, such as a server that does not answer. Starts as over.
#[derive(Debug, Default)]
pub struct Outage {
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    since: Instant,
    said: Instant,
}

impl Outage {
    /// Notes a failure. Returns for how long it has lasted when a line about it is due: zero when it has just begun.
    pub fn fails(&mut self, now: Instant) -> Option<Duration> {
        let Some(current) = &mut self.current else {
            self.current = Some(Current { since: now, said: now });
            return Some(Duration::ZERO);
        };
        if now.saturating_duration_since(current.said) < SAY_EVERY {
            return None;
        }
        current.said = now;
        Some(now.saturating_duration_since(current.since))
    }

    /// Notes a success. Returns how long the failure lasted when it has just ended.
    pub fn ends(&mut self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.current.take()?.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_when_it_begins_each_minute_and_when_it_ends() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::default();
        assert_eq!(outage.ends(at(0)), None);
        let said: Vec<u64> = (0..150).filter(|second| outage.fails(at(*second)).is_some()).collect();
        assert_eq!(said, [0, 60, 120]);
        assert_eq!(outage.ends(at(150)), Some(Duration::from_secs(150)));
        assert_eq!(outage.ends(at(151)), None);
        assert_eq!(outage.fails(at(152)), Some(Duration::ZERO));
    }
}
