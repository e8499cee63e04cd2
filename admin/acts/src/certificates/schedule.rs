//! The times of renewals and of checks of names. No IO.

use std::time::Duration;

use db::certificates::orders::RenewalTimes;
use domain::Timestamp;
use rand::RngExt as _;

/// How long after a person's request DNS is polled every few seconds.
const EAGER_FOR: Duration = Duration::from_mins(10);
const EAGER_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_LOOK_PAUSE: Duration = Duration::from_hours(6);
/// The fraction (1/4) of the time waited so far that a later pause takes, so that checks become rarer.
const LOOK_PAUSE_PART: u32 = 4;
/// The pause after the first failure at an authority; it doubles with each further one.
const FIRST_BACK_OFF: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);
/// How long an unrequested name is still tried at least once a day.
const DAILY_FOR: Duration = Duration::from_hours(7 * 24);
const LONGEST_BACK_OFF: Duration = Duration::from_hours(30 * 24);

/// Returns the renewal times of a certificate whose authority suggests none: between two thirds and three quarters of
/// its lifetime.
pub fn renewal_times(not_before: Timestamp, not_after: Timestamp) -> RenewalTimes {
    let (start, end) = default_window(not_before, not_after);
    RenewalTimes { renew_at: random_between(start, end), due_by: end, ask_at: None }
}

fn default_window(not_before: Timestamp, not_after: Timestamp) -> (Timestamp, Timestamp) {
    let life = not_after.since(not_before);
    (not_before + life * 2 / 3, not_before + life * 3 / 4)
}

/// Returns the renewal window that an authority suggests, or the window by lifetime if that ends earlier: the next
/// certificate must be live before this one expires, whatever the authority suggests.
pub fn clamp_window(
    (start, end): (Timestamp, Timestamp),
    not_before: Timestamp,
    not_after: Timestamp,
) -> (Timestamp, Timestamp) {
    let (life_start, life_end) = default_window(not_before, not_after);
    if end > life_end { (start.min(life_start), life_end) } else { (start, end) }
}

/// Returns the time of a renewal within the window that an authority suggests (RFC 9773, 4.2): the earlier choice
/// `chosen` if it lies within the window, else a random time, or now if the window has passed.
pub fn renewal_time(start: Timestamp, end: Timestamp, chosen: Option<Timestamp>, now: Timestamp) -> Timestamp {
    match chosen.filter(|chosen| (start..=end).contains(chosen)) {
        Some(chosen) => chosen,
        None if end <= now => now,
        None => random_between(start, end).max(now),
    }
}

fn random_between(start: Timestamp, end: Timestamp) -> Timestamp {
    start + end.since(start).mul_f64(rand::rng().random_range(0.0..1.0))
}

pub(super) fn dns_check_pause(waited: Duration) -> Duration {
    if waited < EAGER_FOR { EAGER_PAUSE } else { (waited / LOOK_PAUSE_PART).min(LONGEST_LOOK_PAUSE) }
}

/// Returns the pause after this number of consecutive failures at authorities.
pub(super) fn back_off(failures: i32, waited: Duration, is_renewal: bool) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or_default().min(20);
    // A certificate in use expires, so a day makes a difference.
    let longest = if is_renewal || waited < DAILY_FOR { DAY } else { LONGEST_BACK_OFF };
    (FIRST_BACK_OFF * 2_u32.pow(doublings)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    #[test]
    fn a_renewal_is_due_within_its_part_of_the_life() {
        let start = Timestamp::from_unix_millis(NOW);
        for _ in 0..100 {
            let times = renewal_times(start, start + DAY * 90);
            assert!(times.renew_at >= start + DAY * 60 && times.renew_at <= times.due_by);
            assert_eq!(times.due_by, start + DAY * 90 * 3 / 4);
        }
    }

    #[test]
    fn a_window_that_has_passed_is_now() {
        let now = Timestamp::from_unix_millis(NOW);
        assert_eq!(renewal_time(now - DAY * 2, now - DAY, Some(now + DAY), now), now);
        for _ in 0..100 {
            let ahead = renewal_time(now + DAY, now + DAY * 2, None, now);
            assert!(ahead >= now + DAY && ahead <= now + DAY * 2);
            assert_eq!(renewal_time(now + DAY, now + DAY * 2, Some(ahead), now), ahead, "chosen once");
            let within = renewal_time(now - DAY, now + DAY, Some(now + DAY * 3), now);
            assert!(within >= now && within <= now + DAY);
        }
    }

    #[test]
    fn no_window_reaches_beyond_its_part_of_the_life() {
        let start = Timestamp::from_unix_millis(NOW);
        let within =
            |from: u32, to: u32| clamp_window((start + DAY * from, start + DAY * to), start, start + DAY * 120);
        assert_eq!(within(10, 20), (start + DAY * 10, start + DAY * 20));
        assert_eq!(within(85, 90), (start + DAY * 85, start + DAY * 90));
        assert_eq!(within(85, 119), (start + DAY * 80, start + DAY * 90));
        assert_eq!(within(70, 119), (start + DAY * 70, start + DAY * 90), "it may begin before");
        assert_eq!(within(9_000, 9_001), (start + DAY * 80, start + DAY * 90));
    }

    #[test]
    fn looks_become_rarer() {
        assert_eq!(dns_check_pause(Duration::ZERO), Duration::from_secs(5));
        assert_eq!(dns_check_pause(Duration::from_mins(9)), Duration::from_secs(5));
        assert_eq!(dns_check_pause(Duration::from_mins(20)), Duration::from_mins(5));
        assert_eq!(dns_check_pause(DAY * 30), Duration::from_hours(6));
    }

    #[test]
    fn failures_back_off_to_a_day_and_in_the_end_to_thirty() {
        let pause = |failures, waited| back_off(failures, waited, false);
        assert_eq!(pause(1, Duration::ZERO), Duration::from_mins(1));
        assert_eq!(pause(4, Duration::ZERO), Duration::from_mins(8));
        assert_eq!(pause(30, Duration::ZERO), DAY);
        assert_eq!(pause(i32::MAX, DAY * 8), LONGEST_BACK_OFF);
        assert_eq!(back_off(i32::MAX, DAY * 400, true), DAY);
    }
}
