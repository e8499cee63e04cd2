//! Tracks the speed of the disk, so that a slow write does not keep the other tasks of a runtime thread waiting.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::runtime::{Handle, RuntimeFlavor};

/// The speed of a spool's disk, measured by its writes. While it is fast, a check reads two atomics and takes no lock.
pub(super) struct DiskPace {
    /// The origin of the microsecond values below.
    start: Instant,
    /// The microsecond in which the write in progress began; 0 if there is none.
    pub(super) began: AtomicU64,
    /// The microsecond until which writes are expected to be slow; 0 while they are fast.
    slow_until: AtomicU64,
    waiting: AtomicUsize,
    is_logged: AtomicBool,
    kind: &'static str,
    counter: &'static str,
    is_awake: OnceLock<IsAwake>,
}

/// Returns whether this process ran without interruption, as far as it knows.
type IsAwake = Box<dyn Fn() -> bool + Send + Sync>;

/// A slot among the callers that wait for the disk, freed on drop.
pub(super) struct WriterSlot<'a>(&'a AtomicUsize);

impl DiskPace {
    /// Creates the pace of a disk without writes so far, for records of `kind`. `counter` counts slow writes.
    pub(super) fn new(kind: &'static str, counter: &'static str) -> Self {
        let (began, slow_until) = (AtomicU64::new(0), AtomicU64::new(0));
        let (waiting, is_logged) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { start: Instant::now(), began, slow_until, waiting, is_logged, kind, counter, is_awake: OnceLock::new() }
    }

    /// Excludes writes from the slow count while `is_awake` returns `false`.
    pub(super) fn set_awake(&self, is_awake: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.is_awake.set(Box::new(is_awake));
    }

    /// Returns whether the disk made a write slow, rather than a pause of this process.
    fn is_disk(&self) -> bool {
        self.is_awake.get().is_none_or(|is_awake| is_awake())
    }

    /// Returns whether a write takes long now, or did recently.
    pub(super) fn is_slow(&self) -> bool {
        let (began, until) = (self.began.load(Ordering::Relaxed), self.slow_until.load(Ordering::Relaxed));
        if began == 0 && until == 0 {
            return false;
        }
        let now = self.micros();
        let is_stuck = began != 0 && now.saturating_sub(began) > micros(limits::SLOW_WRITE);
        if is_stuck && self.is_disk() {
            self.log_slow();
        }
        is_stuck || now < until
    }

    pub(super) fn timed<T>(&self, write: impl FnOnce() -> T) -> T {
        let began = self.micros();
        self.began.store(began, Ordering::Relaxed);
        let written = write();
        self.began.store(0, Ordering::Relaxed);
        let now = self.micros();
        if now - began > micros(limits::SLOW_WRITE) {
            self.slow_until.store(now + micros(limits::SLOW_FOR), Ordering::Relaxed);
            if self.is_disk() {
                metrics::counter!(self.counter).increment(1);
                self.log_slow();
            }
        } else if (1..now).contains(&self.slow_until.load(Ordering::Relaxed)) {
            self.slow_until.store(0, Ordering::Relaxed);
            if self.is_logged.swap(false, Ordering::Relaxed) {
                tracing::info!(kind = self.kind, "the spool's disk is fast again");
            }
        }
        written
    }

    /// Reserves a slot to wait for the disk, if fewer than [`limits::SLOW_WRITERS`] are in use.
    pub(super) fn acquire_slot(&self) -> Option<WriterSlot<'_>> {
        let next = |waiting| (waiting < limits::SLOW_WRITERS).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(WriterSlot(&self.waiting))
    }

    fn log_slow(&self) {
        if !self.is_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(kind = self.kind, "the spool's disk is slow (edge.spool)");
        }
    }

    /// Returns the microseconds since the start, counted from 1.
    fn micros(&self) -> u64 {
        micros(self.start.elapsed()) + 1
    }
}

impl Drop for WriterSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs work that may block. On a multi-threaded runtime, the thread's other tasks move to another thread first.
pub(super) fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, atomic::AtomicBool},
        thread::sleep,
    };

    use super::*;

    #[test]
    fn a_write_in_which_the_process_slept_is_no_sign_of_a_slow_disk() {
        let (pace, is_awake) = (DiskPace::new("words", "test_slow_total"), Arc::new(AtomicBool::new(false)));
        let is_now = is_awake.clone();
        pace.set_awake(move || is_now.load(Ordering::Relaxed));
        let is_logged = || pace.is_logged.load(Ordering::Relaxed);
        let write = || {
            sleep(2 * limits::SLOW_WRITE);
            // Another caller checks at the same time.
            assert!(pace.is_slow());
        };
        pace.timed(write);
        assert!(!is_logged());
        assert!(pace.is_slow(), "it does no harm to expect more of it");
        is_awake.store(true, Ordering::Relaxed);
        pace.timed(write);
        assert!(is_logged());
    }
}
