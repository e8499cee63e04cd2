//! Lines of log that say the same again and again, while something is away: one a minute, and how many were left out.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Interval at which a line is repeated while its reason lasts.
const EVERY: Duration = Duration::from_mins(1);

/// Says when a line that repeats is due. Kept in a `static`, or beside what the line is about.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// Nothing was said yet.
    pub const fn new() -> Self {
        Self(Mutex::new(State { last: None, left_out: 0 }))
    }

    /// Whether the line is due: then with the number of those left out since the last.
    pub fn due(&self) -> Option<u64> {
        self.due_at(Instant::now())
    }

    fn due_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_a_minute() {
        let (seldom, start) = (Seldom::new(), Instant::now());
        let due = |seconds| seldom.due_at(start + Duration::from_secs(seconds));
        assert_eq!([0, 1, 59, 60, 61, 130].map(due), [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
