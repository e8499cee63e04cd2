//! Drains: work that goes on after its client has disconnected, such as reading an answer to its end for its usage.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{runtime::Handle, sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::limits;

/// The tasks that go on without their clients. Cheap to clone.
#[derive(Clone)]
pub(super) struct Drains(Arc<Inner>);

struct Inner {
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Drains {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            permits: Arc::new(Semaphore::new(limits::DRAINS)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Runs `work` in the background, up to [`limits::DRAIN_WAIT`]. Beyond [`limits::DRAINS`] tasks it is dropped
    /// instead. Either way, dropping `work` must settle what it holds.
    pub(super) fn spawn<W>(&self, work: W)
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        let (Ok(runtime), Ok(permit)) = (Handle::try_current(), self.0.permits.clone().try_acquire_owned()) else {
            return;
        };
        metrics::gauge!("svc_gateway_drains").increment(1);
        let stop = self.0.stop.clone();
        let task = async move {
            let _ = stop.run_until_cancelled_owned(timeout(limits::DRAIN_WAIT, work)).await;
            drop(permit);
            metrics::gauge!("svc_gateway_drains").decrement(1);
        };
        self.0.tasks.spawn_on(task, &runtime);
    }

    /// Cancels all tasks, and waits until each of them has been dropped.
    pub(super) async fn finish(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// A flag that says whether a request's client has disconnected.
#[derive(Clone, Default)]
pub(super) struct Disconnected(Arc<AtomicBool>);

impl Disconnected {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A future that becomes a drain when it is dropped before its end, which is when its client disconnects.
pub(super) struct DrainOnDrop<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    disconnected: Disconnected,
    drains: Drains,
}

impl<T: Send + 'static> DrainOnDrop<T> {
    pub(super) fn new<W>(drains: Drains, work: impl FnOnce(Disconnected) -> W) -> Self
    where
        W: Future<Output = T> + Send + 'static,
    {
        let disconnected = Disconnected::default();
        Self { work: Some(Box::pin(work(disconnected.clone()))), disconnected, drains }
    }
}

impl<T: Send + 'static> Future for DrainOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Polled after its end, it stays pending.
        let Some(work) = &mut self.work else { return Poll::Pending };
        let output = work.as_mut().poll(cx);
        if output.is_ready() {
            self.work = None;
        }
        output
    }
}

impl<T: Send + 'static> Drop for DrainOnDrop<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.disconnected.0.store(true, Ordering::Relaxed);
            self.drains.spawn(work);
        }
    }
}
