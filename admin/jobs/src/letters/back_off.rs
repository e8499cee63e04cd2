//! Retries of letters, and pauses while a mail server accepts none.

use std::{ops::RangeInclusive, time::Duration};

use domain::Timestamp;

/// The pauses between attempts at a letter, doubled each time.
const PAUSES: RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(24);
/// The attempts at a letter that is not about money, over some four and a half days.
const ATTEMPTS: i32 = 15;
/// The pauses while the mail server accepts no letters, doubled each time.
const OUTAGE_PAUSES: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_mins(15);

/// Returns the pause before a letter is retried after this refusal and `attempts` earlier ones; `None` if it is given
/// up. A letter that is kept, because it is about money, is given up only after a permanent refusal.
pub(super) fn next_attempt(attempts: i32, is_final: bool, is_kept: bool) -> Option<Duration> {
    (!is_final && (is_kept || attempts.saturating_add(1) < ATTEMPTS))
        .then(|| doubled(&PAUSES, attempts.try_into().unwrap_or_default()))
}

fn doubled(pauses: &RangeInclusive<Duration>, times: u32) -> Duration {
    pauses.start().saturating_mul(2_u32.saturating_pow(times)).min(*pauses.end())
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServerOutage {
    failures: u32,
    until: Option<Timestamp>,
}

impl ServerOutage {
    pub(super) fn is_active(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    pub(super) fn begin(&mut self, now: Timestamp) -> Timestamp {
        let until = now + doubled(&OUTAGE_PAUSES, self.failures);
        *self = Self { failures: self.failures.saturating_add(1), until: Some(until) };
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_day_and_end_after_days() {
        assert_eq!(next_attempt(0, false, false), Some(Duration::from_mins(1)));
        assert_eq!(next_attempt(3, false, false), Some(Duration::from_mins(8)));
        assert_eq!(next_attempt(13, false, false), Some(Duration::from_hours(24)));
        assert_eq!(next_attempt(14, false, false), None);
        assert_eq!(next_attempt(i32::MAX, false, false), None);
        let all: Duration = (0..).map_while(|attempts| next_attempt(attempts, false, false)).sum();
        assert!(all > Duration::from_hours(4 * 24) && all < Duration::from_hours(5 * 24), "{all:?}");
    }

    #[test]
    fn what_is_refused_for_good_is_not_tried_again() {
        assert_eq!(next_attempt(0, true, false), None);
        assert_eq!(next_attempt(0, true, true), None);
    }

    #[test]
    fn what_is_about_money_is_tried_daily_for_as_long_as_it_takes() {
        for attempts in [14, 1_000, i32::MAX] {
            assert_eq!(next_attempt(attempts, false, true), Some(Duration::from_hours(24)));
        }
    }

    #[test]
    fn a_server_that_is_away_is_asked_ever_more_rarely() {
        let (mut outage, mut now) = (ServerOutage::default(), Timestamp::from_unix_millis(0));
        assert!(!outage.is_active(now));
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let until = outage.begin(now);
            assert!(outage.is_active(now) && !outage.is_active(until));
            pauses.push(until.since(now).as_secs());
            now = until;
        }
        assert_eq!(pauses[..9], [10, 20, 40, 80, 160, 320, 640, 900, 900]);
        assert_eq!(pauses.last(), Some(&900));
    }
}
