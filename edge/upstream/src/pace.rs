//! Paces the requests for a model at a provider that reports a reached rate limit.
//!
//! As long as the provider refuses nothing, requests pass without a lock. After a refusal (429), requests wait in a
//! queue in which accounts take turns: an account that sends many waits longer than one that sends few. They pass one
//! by one, after the time that the provider named, at a rate that rises while the provider accepts them and is halved
//! when it refuses. Once it has refused nothing for [`limits::PACE_CALM`] and the queue is empty, all pass again.
//!
//! Each edge has its own queue. Several edges find their rates together, as each is slowed down by its own refusals.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use domain::PayingAccount;
use edge_metrics as metrics;
use fairness::{TurnBounds, TurnQueue};
use tokio::time::{Instant, sleep_until};

/// The pace of one model at one provider.
pub struct ProviderPace {
    /// Whether requests wait for their turn.
    is_limited: AtomicBool,
    waiting: AtomicUsize,
    /// The turn to pass, held by one request at a time.
    turn: TurnQueue<PayingAccount>,
    state: Mutex<PaceState>,
}

struct PaceState {
    next: Instant,
    gap: Duration,
    refused: Option<Instant>,
}

/// The request cannot be sent in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceError {
    /// When a retry may succeed.
    pub retry_after: Duration,
}

impl Default for ProviderPace {
    /// Creates a pace at which no request waits, until the provider refuses one.
    fn default() -> Self {
        Self {
            is_limited: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            turn: TurnQueue::new(TurnBounds {
                total: 1,
                share: 1,
                waiting: limits::PACED,
                waiting_share: limits::ACCOUNT_PACED,
            }),
            state: Mutex::new(PaceState { next: Instant::now(), gap: limits::PACE_FIRST_GAP, refused: None }),
        }
    }
}

impl ProviderPace {
    /// Returns whether requests wait for their turn, because the provider has refused one.
    pub fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// Passes a request if it need not wait. Returns whether it passes.
    pub fn try_pass(&self) -> bool {
        if !self.is_limited() {
            return true;
        }
        self.waiting.load(Ordering::Relaxed) == 0 && self.pass()
    }

    /// Waits until a request of `account` passes. Fails if that would be after `deadline`, or too many requests wait.
    pub async fn wait(&self, account: &PayingAccount, deadline: Instant) -> Result<(), PaceError> {
        // Checked before queueing: a request that cannot pass in time must not hold up others.
        self.next_before(deadline)?;
        let _waiting = WaitingGuard::new(&self.waiting);
        let patience = deadline.saturating_duration_since(Instant::now());
        let Ok(_turn) = self.turn.take(account, patience).await else { return Err(self.too_late()) };
        loop {
            let next = self.next_before(deadline)?;
            if self.pass() {
                return Ok(());
            }
            sleep_until(next).await;
        }
    }

    /// Passes the next request if it is due.
    fn pass(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let passes = state.next <= now;
        if passes {
            state.next = now + state.gap;
        }
        passes
    }

    /// Returns when the next request may pass, if that is before `deadline`.
    fn next_before(&self, deadline: Instant) -> Result<Instant, PaceError> {
        let next = self.state().next;
        if next > deadline { Err(self.too_late()) } else { Ok(next) }
    }

    fn too_late(&self) -> PaceError {
        let until = self.state().next.saturating_duration_since(Instant::now());
        PaceError { retry_after: until.max(limits::OVERLOAD_RETRY) }
    }

    /// Records that the provider refused a request sent at `sent`, and accepts the next after `retry_after` if given.
    pub fn record_refused(&self, sent: Instant, retry_after: Option<Duration>) {
        let now = Instant::now();
        let mut state = self.state();
        // Requests sent before the last refusal say nothing about the rate since then.
        let is_new = state.refused.is_none_or(|refused| sent > refused);
        if is_new {
            if self.is_limited() {
                state.gap = (state.gap * 2).min(limits::PACE_LONGEST_GAP);
            }
            state.refused = Some(now);
        }
        state.next = state.next.max(now + retry_after.unwrap_or(limits::PACE_PAUSE));
        self.is_limited.store(true, Ordering::Relaxed);
    }

    /// Records that the provider accepted a request.
    pub fn record_accepted(&self) {
        if !self.is_limited() {
            return;
        }
        let mut state = self.state();
        let gap = state.gap.as_secs_f64();
        // Each second, the rate rises by one request per second plus a quarter of itself.
        let faster = 1.0 / (1.0 / gap + gap + limits::PACE_GROWTH);
        state.gap = Duration::from_secs_f64(faster).max(limits::PACE_SHORTEST_GAP);
        let is_calm = state.refused.is_none_or(|refused| refused.elapsed() >= limits::PACE_CALM);
        if is_calm && self.waiting.load(Ordering::Relaxed) == 0 {
            (state.gap, state.refused) = (limits::PACE_FIRST_GAP, None);
            self.is_limited.store(false, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct WaitingGuard<'p>(&'p AtomicUsize);

impl<'p> WaitingGuard<'p> {
    fn new(count: &'p AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        metrics::paced().increment(1);
        Self(count)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        metrics::paced().decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn account(name: char) -> PayingAccount {
        format!("usr_0000000000000000000{name}").parse::<domain::UserId>().unwrap().into()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_take_turns_once_the_provider_has_refused() {
        let pace = Arc::new(ProviderPace::default());
        assert!(!pace.is_limited());
        pace.record_refused(Instant::now(), Some(Duration::from_secs(2)));
        assert!(pace.is_limited());
        let (start, order) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = Vec::new();
        for name in "aaaabc".chars() {
            let (pace, order) = (pace.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                pace.wait(&account(name), soon()).await.unwrap();
                order.lock().unwrap().push((name, start.elapsed()));
                pace.record_accepted();
            }));
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap().clone();
        assert_eq!(order.iter().map(|(name, _)| *name).collect::<String>(), "abcaaa");
        assert!(order[0].1 >= Duration::from_secs(2), "not before the provider's time");
        assert!(order.is_sorted_by(|one, next| next.1.saturating_sub(one.1) >= limits::PACE_SHORTEST_GAP), "{order:?}");
        // The limit is lifted when the provider has refused nothing for a while.
        tokio::time::advance(limits::PACE_CALM).await;
        pace.record_accepted();
        assert!(!pace.is_limited());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_cannot_pass_in_time_does_not_wait() {
        let pace = ProviderPace::default();
        pace.record_refused(Instant::now(), Some(Duration::from_mins(1)));
        let late = pace.wait(&account('a'), soon()).await.unwrap_err();
        assert!(late.retry_after > Duration::from_secs(50));
        // A request that waited in vain behind another's turn fails at its deadline.
        let pace = ProviderPace::default();
        pace.record_refused(Instant::now(), Some(Duration::from_secs(25)));
        let (first, second) = (account('a'), account('b'));
        let deadline = Instant::now() + Duration::from_secs(20);
        assert!(pace.wait(&first, deadline).await.is_err());
        let waits = async {
            let held = pace.turn.take(&first, Duration::from_secs(1)).await.unwrap();
            assert!(pace.wait(&second, soon()).await.is_err());
            drop(held);
        };
        waits.await;
        assert_eq!(pace.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_rises_with_what_is_taken_and_falls_with_refusals() {
        let pace = ProviderPace::default();
        let gap = |pace: &ProviderPace| pace.state().gap;
        pace.record_refused(Instant::now(), None);
        assert_eq!(gap(&pace), limits::PACE_FIRST_GAP);
        // A single refusal counts among several requests in flight.
        let sent = Instant::now();
        tokio::time::advance(Duration::from_millis(10)).await;
        pace.record_refused(sent + Duration::from_millis(5), None);
        let slower = gap(&pace);
        assert_eq!(slower, limits::PACE_FIRST_GAP * 2);
        for _ in 0..10 {
            pace.record_refused(sent, None);
        }
        assert_eq!(gap(&pace), slower);
        pace.record_accepted();
        let faster = gap(&pace);
        assert!(faster < slower && faster > slower / 2, "{faster:?}");
        for _ in 0..100_000 {
            pace.record_accepted();
        }
        assert_eq!(gap(&pace), limits::PACE_SHORTEST_GAP);
        for _ in 0..100 {
            tokio::time::advance(Duration::from_millis(2)).await;
            pace.record_refused(Instant::now(), None);
            tokio::time::advance(Duration::from_millis(2)).await;
        }
        assert_eq!(gap(&pace), limits::PACE_LONGEST_GAP);
    }
}
