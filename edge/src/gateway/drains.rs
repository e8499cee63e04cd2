//! What goes on when its client has gone: reading an answer to its end, so that its usage is known.

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

/// The work that nobody waits for.
#[derive(Clone)]
pub(super) struct Drains(Arc<Inner>);

struct Inner {
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Drains {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            places: Arc::new(Semaphore::new(limits::DRAINS)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Goes on with `work`, for a while, if there is room; dropping it settles what it would have.
    pub(super) fn take_over<W>(&self, work: W)
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        let (Ok(runtime), Ok(place)) = (Handle::try_current(), self.0.places.clone().try_acquire_owned()) else {
            return;
        };
        metrics::gauge!("svc_gateway_drains").increment(1);
        let stop = self.0.stop.clone();
        let task = async move {
            let _ = stop.run_until_cancelled_owned(timeout(limits::DRAIN_WAIT, work)).await;
            drop(place);
            metrics::gauge!("svc_gateway_drains").decrement(1);
        };
        self.0.tasks.spawn_on(task, &runtime);
    }

    /// Gives up what is under way, and waits until it has settled.
    pub(super) async fn finish(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// Whether a client has gone.
#[derive(Clone, Default)]
pub(super) struct Gone(Arc<AtomicBool>);

impl Gone {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Work for a client that is finished without it when it goes.
pub(super) struct Lasting<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    gone: Gone,
    drains: Drains,
}

impl<T: Send + 'static> Lasting<T> {
    pub(super) fn new<W>(drains: Drains, work: impl FnOnce(Gone) -> W) -> Self
    where
        W: Future<Output = T> + Send + 'static,
    {
        let gone = Gone::default();
        Self { work: Some(Box::pin(work(gone.clone()))), gone, drains }
    }
}

impl<T: Send + 'static> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Asked again after its end, it has nothing more to say.
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.gone.0.store(true, Ordering::Relaxed);
            self.drains.take_over(work);
        }
    }
}
