//! Drains: work that continues after its client disconnects, such as reading an answer to its end for its usage.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use domain::PayingAccount;
use edge_metrics as metrics;
use fairness::{TurnBounds, TurnPermit, TurnQueue};
use http::Response;
use http_types::pinned;
use meter::{ChargeFlag, Reservation};
use tokio::{runtime::Handle, sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use traces::CompletionSpan;

use super::body::GatewayBody;

/// The tasks that continue without their clients. Cheap to clone.
#[derive(Clone)]
pub(super) struct DrainTasks(Arc<DrainState>);

struct DrainState {
    /// Slots for drains, in total and per account.
    places: TurnQueue<PayingAccount>,
    /// Slots for connections that wait for the end of an answer.
    ends: Arc<Semaphore>,
    /// Tracks all pending completions.
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl DrainTasks {
    /// Creates an empty set whose drains are added to `tasks`.
    pub(super) fn new(tasks: TaskTracker) -> Self {
        Self(Arc::new(DrainState {
            places: TurnQueue::new(TurnBounds {
                total: limits::DRAINS,
                share: limits::ACCOUNT_DRAINS,
                waiting: 0,
                waiting_share: 0,
            }),
            ends: Arc::new(Semaphore::new(limits::ENDS)),
            tasks,
            stop: CancellationToken::new(),
        }))
    }

    /// Takes a place for reading an answer of `account`. There is none above [`limits::ACCOUNT_DRAINS`] tasks of the
    /// account, less when many are taken, or above [`limits::DRAINS`] in total: nobody learns the answer's usage then,
    /// and it has to be charged with the most that it may have used.
    pub(super) fn try_place(&self, account: &PayingAccount) -> Option<TurnPermit<PayingAccount>> {
        let place = self.0.places.try_take(account);
        place.inspect_err(|_| metrics::drain_refused("answer")).ok()
    }

    /// Runs `work`, which reads a stream, in the background for up to [`limits::DRAIN_WAIT`]. Dropping `work` must
    /// settle what it holds.
    pub(super) fn spawn<W>(&self, place: TurnPermit<PayingAccount>, work: W)
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        self.run(place, limits::DRAIN_WAIT, work);
    }

    /// Runs `work`, which waits for the end of an answer to reuse its connection, in the background. Above
    /// [`limits::ENDS`] tasks, `work` is dropped instead, which closes the connection.
    pub(super) fn spawn_end<W>(&self, work: W)
    where
        W: Future + Send + 'static,
        W::Output: Send,
    {
        match self.0.ends.clone().try_acquire_owned() {
            Ok(place) => self.run(place, limits::DRAIN_WAIT, work),
            Err(_) => metrics::drain_refused("connection"),
        }
    }

    fn run<P, W>(&self, place: P, wait: Duration, work: W)
    where
        P: Send + 'static,
        W: Future + Send + 'static,
        W::Output: Send,
    {
        let Ok(runtime) = Handle::try_current() else { return };
        metrics::drains().increment(1);
        let stop = self.0.stop.clone();
        let task = async move {
            let done = stop.run_until_cancelled_owned(timeout(wait, work)).await;
            // Dropped first: the output may be a stream that needs this slot to be read to its end.
            drop(place);
            drop(done);
            metrics::drains().decrement(1);
        };
        self.0.tasks.spawn_on(task, &runtime);
    }

    /// Cancels all drains, including later ones.
    pub(super) fn cancel(&self) {
        self.0.stop.cancel();
    }
}

/// A flag for whether the client of an exchange has disconnected.
#[derive(Clone, Default)]
pub(super) struct DisconnectFlag(Arc<DisconnectState>);

#[derive(Default)]
struct DisconnectState {
    is_set: AtomicBool,
    is_unread: AtomicBool,
}

impl DisconnectFlag {
    pub(super) fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// Returns whether, in addition, there was no place to read the answer to its end.
    pub(super) fn is_unread(&self) -> bool {
        self.0.is_unread.load(Ordering::Relaxed)
    }
}

/// The caller of an exchange: whether its client has disconnected, and what observes the completion.
#[derive(Clone, Default)]
pub(super) struct CompletionCaller {
    disconnected: DisconnectFlag,
    charge: ChargeFlag,
    span: Option<CompletionSpan>,
}

impl CompletionCaller {
    /// Creates the caller of an exchange for clients that reconnect. `charge` records whether it costs anything.
    pub(super) fn lasting(charge: ChargeFlag, span: Option<CompletionSpan>) -> Self {
        Self { charge, span, ..Self::default() }
    }

    pub(super) fn with_span(self, span: Option<CompletionSpan>) -> Self {
        Self { span, ..self }
    }

    pub(super) fn has_left(&self) -> bool {
        self.disconnected.is_set()
    }

    pub(super) fn disconnected(&self) -> DisconnectFlag {
        self.disconnected.clone()
    }

    /// Makes the reservation report its end to the caller's charge and span.
    pub(super) fn watch(&self, reservation: &mut Reservation) {
        reservation.report_to(self.charge.clone(), self.span.clone());
    }

    pub(super) fn is_charged(&self) -> bool {
        self.charge.is_set()
    }

    pub(super) fn answered(&self, response: &Response<GatewayBody>) {
        if let Some(span) = &self.span {
            span.record_response(response.status(), response.extensions().get().copied());
        }
    }
}

/// A future that becomes a drain if it is dropped before it completes, as when its client disconnects.
pub(super) struct DrainOnDrop<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    caller: CompletionCaller,
    drains: DrainTasks,
    account: PayingAccount,
    longest: Duration,
}

impl<T: Send + 'static> DrainOnDrop<T> {
    /// Creates work that runs for at most `longest` after its client disconnects.
    pub(super) fn new<W>(
        drains: DrainTasks,
        account: PayingAccount,
        longest: Duration,
        work: impl FnOnce(CompletionCaller) -> W,
    ) -> Self
    where
        W: Future<Output = T> + Send + 'static,
    {
        let caller = CompletionCaller::default();
        let work = pinned(|| work(caller.clone()));
        Self { work: Some(work), caller, drains, account, longest }
    }
}

impl<T: Send + 'static> Future for DrainOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Stays pending when polled after completion.
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
            let state = &self.caller.disconnected.0;
            state.is_set.store(true, Ordering::Relaxed);
            // The usage of a non-streaming answer is known only at its end.
            if let Some(place) = self.drains.try_place(&self.account) {
                self.drains.run(place, self.longest, work);
            } else {
                state.is_unread.store(true, Ordering::Relaxed);
                drop(work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn account(name: &str) -> PayingAccount {
        format!("usr_000000000000000000{name}").parse::<domain::UserId>().unwrap().into()
    }

    /// Returns work that never ends and holds a reference while it runs.
    fn endless(under_way: &Arc<()>) -> impl Future<Output = ()> + Send + use<> {
        let held = under_way.clone();
        async move {
            pending::<()>().await;
            drop(held);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_streamed_is_read_for_longer_than_a_stream() {
        let (tasks, ended) = (TaskTracker::new(), Arc::new(AtomicBool::new(false)));
        let drains = DrainTasks::new(tasks.clone());
        let long = || {
            let ended = ended.clone();
            async move {
                let _ = timeout(2 * limits::DRAIN_WAIT, pending::<()>()).await;
                ended.store(true, Ordering::Relaxed);
            }
        };
        drains.spawn(drains.try_place(&account("1a")).unwrap(), long());
        drop(DrainOnDrop::new(drains, account("1a"), limits::EXCHANGE, |_| long()));
        tasks.close();
        let start = tokio::time::Instant::now();
        tasks.wait().await;
        assert!(ended.load(Ordering::Relaxed));
        assert_eq!(start.elapsed(), 2 * limits::DRAIN_WAIT);
    }

    #[tokio::test]
    async fn shares_of_the_places_shrink_as_they_fill() {
        let drains = DrainTasks::new(TaskTracker::new());
        let take = |number: usize| drains.try_place(&account(&format!("{number:02}")));
        let held: Vec<_> = (0..60).flat_map(|number| std::iter::from_fn(move || take(number))).collect();
        assert!(held.len() < limits::DRAINS, "{}", held.len());
        assert!(take(60).is_some(), "the accounts before it have left a place");
    }

    #[tokio::test]
    async fn one_account_does_not_take_every_place() {
        let tasks = TaskTracker::new();
        let drains = DrainTasks::new(tasks.clone());
        let (adas, bobs, ends) = (Arc::new(()), Arc::new(()), Arc::new(()));
        let spawn = |name: &str, under_way: &Arc<()>| {
            if let Some(place) = drains.try_place(&account(name)) {
                drains.spawn(place, endless(under_way));
            }
        };
        for _ in 0..limits::DRAINS {
            spawn("1a", &adas);
        }
        assert_eq!(Arc::strong_count(&adas) - 1, limits::ACCOUNT_DRAINS);
        spawn("1b", &bobs);
        assert_eq!(Arc::strong_count(&bobs) - 1, 1);
        // Connection ends take no answer slots, and vice versa.
        for _ in 0..=limits::ENDS {
            drains.spawn_end(endless(&ends));
        }
        assert_eq!(Arc::strong_count(&ends) - 1, limits::ENDS);
        spawn("1b", &bobs);
        assert_eq!(Arc::strong_count(&bobs) - 1, 2);
        drains.cancel();
        tasks.close();
        tasks.wait().await;
        assert_eq!([&adas, &bobs, &ends].map(Arc::strong_count), [1; 3], "each is dropped");
    }
}
