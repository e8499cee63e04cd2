//! One timer per connection for the heads of its requests. hyper requests a new timer for every request, which takes
//! allocations and the runtime's lock; moving an existing one to a later time takes neither.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

use super::parking::IdleWatch;

pub(super) type BoxedSleep = Pin<Box<tokio::time::Sleep>>;

/// The timer for hyper, which reuses the sleep of one request for the next. Before its end, it reports that nothing of
/// the next request has arrived for [`limits::PARK_IDLE_AFTER`].
#[derive(Clone)]
pub(super) struct HeadTimer(Arc<HeadTimerState>);

struct HeadTimerState {
    spare: Mutex<SpareSleep>,
    watch: Arc<IdleWatch>,
}

struct SpareSleep {
    sleep: Option<BoxedSleep>,
    deadline: tokio::time::Instant,
}

struct HeadSleep {
    sleep: Option<BoxedSleep>,
    /// Its end, until the first part of the wait has been reported.
    later: Option<tokio::time::Instant>,
    timer: HeadTimer,
}

impl HeadTimer {
    /// Creates a timer that notifies `watch` when a sleep has lasted for [`limits::PARK_IDLE_AFTER`].
    pub(super) fn new(watch: Arc<IdleWatch>) -> Self {
        let spare = SpareSleep { sleep: None, deadline: tokio::time::Instant::now() };
        Self(Arc::new(HeadTimerState { spare: Mutex::new(spare), watch }))
    }

    /// Returns a sleep that ends when the latest one, already dropped, would have.
    pub(super) fn rest(&self) -> BoxedSleep {
        let mut spare = self.spare();
        let deadline = spare.deadline;
        let mut sleep = spare.sleep.take().unwrap_or_else(|| Box::pin(tokio::time::sleep_until(deadline)));
        sleep.as_mut().reset(deadline);
        sleep
    }

    /// Never contended: only the connection's task locks it.
    fn spare(&self) -> MutexGuard<'_, SpareSleep> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.0.watch.has_read.store(false, Ordering::Relaxed);
        let deadline: tokio::time::Instant = deadline.into();
        // hyper has just read the clock, and waits for a head as long as it always does.
        let first =
            deadline.checked_sub(limits::REQUEST_HEAD.saturating_sub(limits::PARK_IDLE_AFTER)).unwrap_or(deadline);
        let mut spare = self.spare();
        spare.deadline = deadline;
        let sleep = match spare.sleep.take() {
            Some(mut sleep) => {
                sleep.as_mut().reset(first);
                sleep
            }
            None => Box::pin(tokio::time::sleep_until(first)),
        };
        let later = (first < deadline).then_some(deadline);
        Box::pin(HeadSleep { sleep: Some(sleep), later, timer: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(sleep) = &mut this.sleep else { return Poll::Ready(()) };
        ready!(sleep.as_mut().poll(cx));
        let Some(later) = this.later.take() else { return Poll::Ready(()) };
        this.timer.0.watch.is_due.store(true, Ordering::Relaxed);
        sleep.as_mut().reset(later);
        sleep.as_mut().poll(cx)
    }
}

impl Sleep for HeadSleep {}

impl Drop for HeadSleep {
    fn drop(&mut self) {
        self.timer.0.watch.is_due.store(false, Ordering::Relaxed);
        self.timer.spare().sleep = self.sleep.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_sleep_ends_at_its_own_time() {
        let timer = HeadTimer::new(Arc::default());
        let start = tokio::time::Instant::now();
        let first = timer.sleep(Duration::from_secs(30));
        tokio::time::sleep(Duration::from_secs(20)).await;
        drop(first);
        timer.sleep(Duration::from_secs(30)).await;
        assert_eq!(start.elapsed().as_secs(), 50, "not when the first would have ended");
        timer.sleep(Duration::from_secs(5)).await;
        assert_eq!(start.elapsed().as_secs(), 55, "one that has ended serves again, also for less");
        let (one, other) = (timer.sleep(Duration::from_secs(1)), timer.sleep(Duration::from_secs(2)));
        futures_util::future::join(one, other).await;
        assert_eq!(start.elapsed().as_secs(), 57, "two at once are two");
    }
}
