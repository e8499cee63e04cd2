//! One timer a connection for the heads of its requests. hyper asks for a new one at every request, which takes
//! allocations and the runtime's lock; moving an old one to a later time takes neither.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

type Inner = Pin<Box<tokio::time::Sleep>>;

/// The timer to give to hyper: the sleep that one request is done with serves the next.
#[derive(Clone, Default)]
pub(super) struct HeadTimer(Arc<Mutex<Option<Inner>>>);

struct HeadSleep {
    /// There until it is dropped.
    sleep: Option<Inner>,
    spare: HeadTimer,
}

impl HeadTimer {
    /// Never contended: all of it happens in the connection's task.
    fn spare(&self) -> MutexGuard<'_, Option<Inner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let spare = self.spare().take();
        let sleep = match spare {
            Some(mut sleep) => {
                sleep.as_mut().reset(deadline.into());
                sleep
            }
            None => Box::pin(tokio::time::sleep_until(deadline.into())),
        };
        Box::pin(HeadSleep { sleep: Some(sleep), spare: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().map_or(Poll::Ready(()), |sleep| sleep.as_mut().poll(cx))
    }
}

impl Sleep for HeadSleep {}

impl Drop for HeadSleep {
    fn drop(&mut self) {
        *self.spare.spare() = self.sleep.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_sleep_ends_at_its_own_time() {
        let timer = HeadTimer::default();
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
