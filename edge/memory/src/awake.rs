//! Detects that this process was paused, or its machine suspended, and so may have missed changes that nobody waited
//! for.
//!
//! A task repeatedly records until when memory may be trusted ([`SleepDetector::watch`]). Each lookup compares that deadline
//! with the clock, so the first request after a sleep detects it, whatever runs first. The clock is the coarse wall
//! clock, which is very cheap to read and keeps running while the process is stopped or the machine sleeps. The task
//! also compares it with the time since boot, because a jump of the wall clock indicates a machine that was suspended
//! and restored. After a sleep, [`super::follow`] looks up what was missed.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

/// The deadline until which memory may be trusted.
#[derive(Debug)]
pub struct SleepDetector {
    /// The deadline on the wall clock, in milliseconds. Zero after a sleep, until a look for missed changes.
    until: AtomicU64,
    /// The last time the process was recorded as running, in milliseconds since boot.
    noted: AtomicU64,
    sleeps: AtomicU64,
    /// Notified when missed changes have to be looked up.
    slept: Notify,
    /// Notified when missed changes have been looked up.
    woken: Notify,
}

#[derive(Debug, Clone, Copy)]
struct ClockReading {
    wall: u64,
    /// Since boot, including time suspended.
    since_start: u64,
}

impl ClockReading {
    fn now() -> Self {
        Self { wall: wall(), since_start: read(ClockId::Boottime) }
    }
}

impl Default for SleepDetector {
    /// Returns a value that is always awake until it is watched.
    fn default() -> Self {
        Self {
            until: AtomicU64::new(u64::MAX),
            noted: AtomicU64::new(u64::MAX),
            sleeps: AtomicU64::new(0),
            slept: Notify::new(),
            woken: Notify::new(),
        }
    }
}

impl SleepDetector {
    /// Returns whether memory may be trusted.
    pub fn is_awake(&self) -> bool {
        self.is_awake_at(wall())
    }

    /// Waits until memory may be trusted.
    pub(super) async fn wait_until_awake(&self) {
        while !self.is_awake() {
            let woken = self.woken.notified();
            if self.is_awake() {
                return;
            }
            woken.await;
        }
    }

    /// Records that this process is running, for as long as it is polled.
    pub(super) async fn watch(&self) {
        let mut before = None;
        let mut every = interval(limits::AWAKE_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let now = ClockReading::now();
            self.note(now, before.replace(now));
        }
    }

    /// Waits until changes may have been missed.
    pub(super) async fn sleep_detected(&self) {
        self.slept.notified().await;
    }

    /// Returns the number of detected sleeps, for [`Self::wake`].
    pub(super) fn sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Acquire)
    }

    /// Ends a sleep after missed changes have been read, unless another sleep came after this number of `sleeps`.
    pub(super) fn wake(&self, sleeps: u64) {
        self.wake_at(ClockReading::now(), sleeps);
    }

    fn wake_at(&self, now: ClockReading, sleeps: u64) {
        let noted = self.noted.load(Ordering::Acquire);
        if self.sleeps() == sleeps && now.since_start.saturating_sub(noted) <= AWAKE_FOR {
            self.until.store(now.wall + AWAKE_FOR, Ordering::Release);
            self.woken.notify_waiters();
        }
    }

    fn is_awake_at(&self, wall: u64) -> bool {
        wall < self.until.load(Ordering::Acquire)
    }

    /// Records that the process is running `now`, as it was at `before`.
    fn note(&self, now: ClockReading, before: Option<ClockReading>) {
        let (has_slept, has_leapt) = before.map_or((false, false), |before| {
            let ran = now.since_start.saturating_sub(before.since_start);
            let drift = (before.wall + ran).abs_diff(now.wall);
            (ran > AWAKE_FOR, u128::from(drift) > limits::CLOCK_DRIFT.as_millis())
        });
        self.noted.store(now.since_start, Ordering::Release);
        if has_leapt || has_slept {
            tracing::warn!(has_leapt, "this edge was stopped, or the clock has leapt: looking for missed changes");
            self.sleeps.fetch_add(1, Ordering::AcqRel);
            self.until.store(0, Ordering::Release);
        }
        if self.until.load(Ordering::Acquire) == 0 {
            self.slept.notify_one();
        } else {
            self.until.store(now.wall + AWAKE_FOR, Ordering::Release);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "less than a second")]
const AWAKE_FOR: u64 = limits::AWAKE_FOR.as_millis() as u64;

/// Returns the coarse wall clock, which lags some milliseconds and takes a few nanoseconds to read.
fn wall() -> u64 {
    read(ClockId::RealtimeCoarse)
}

fn read(clock: ClockId) -> u64 {
    Duration::try_from(clock_gettime(clock)).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn moment(millis: u64) -> ClockReading {
        ClockReading { wall: 1_700_000_000_000 + millis, since_start: 5_000 + millis }
    }

    fn is_awake(awake: &SleepDetector, millis: u64) -> bool {
        awake.is_awake_at(moment(millis).wall)
    }

    #[test]
    fn a_process_that_was_stopped_is_not_awake_until_it_has_looked() {
        let awake = SleepDetector::default();
        awake.note(moment(0), None);
        assert!(is_awake(&awake, AWAKE_FOR - 1) && !is_awake(&awake, AWAKE_FOR));
        let sleeps = awake.sleeps();
        awake.note(moment(8_000), Some(moment(0)));
        assert!(!is_awake(&awake, 8_000), "running again is no reason to believe");
        assert!(awake.sleep_detected().now_or_never().is_some(), "it is asked to look");
        awake.wake_at(moment(8_000), sleeps);
        assert!(!is_awake(&awake, 8_000), "that look may have begun before the sleep");
        awake.wake_at(moment(8_000), awake.sleeps());
        assert!(is_awake(&awake, 8_000));
        awake.wake_at(moment(18_000), awake.sleeps());
        assert!(!is_awake(&awake, 18_000), "it slept again and has not noticed");
    }

    #[test]
    fn a_slow_look_wakes_a_process_that_runs() {
        let awake = SleepDetector::default();
        awake.note(moment(0), None);
        awake.note(moment(8_000), Some(moment(0)));
        let sleeps = awake.sleeps();
        for now in (8_100..=12_000).step_by(100) {
            awake.note(moment(now), Some(moment(now - 100)));
            assert!(!is_awake(&awake, now));
        }
        awake.wake_at(moment(12_050), sleeps);
        assert!(is_awake(&awake, 12_050));
    }

    #[test]
    fn a_leap_of_the_clock_is_a_sleep_and_its_drift_is_none() {
        for (leap, expected) in [(0, true), (200, true), (-200, true), (5_000, false), (-5_000, false)] {
            let awake = SleepDetector::default();
            awake.note(moment(0), None);
            let now = moment(100);
            let leapt = ClockReading { wall: now.wall.saturating_add_signed(leap), ..now };
            awake.note(leapt, Some(moment(0)));
            assert_eq!(awake.is_awake_at(leapt.wall), expected, "{leap}");
        }
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let (awake, now) = (SleepDetector::default(), ClockReading::now());
        awake.note(now, Some(ClockReading { since_start: now.since_start.saturating_sub(10 * AWAKE_FOR), ..now }));
        let mut waiting = std::pin::pin!(awake.wait_until_awake());
        assert!(waiting.as_mut().now_or_never().is_none());
        awake.wake(awake.sleeps());
        waiting.await;
    }
}
