//! Paces the requests for a model at a provider that reports a reached rate limit.
//!
//! As long as the provider refuses nothing, requests pass without a lock. After a refusal (429), the requests of the
//! account that was refused wait, after the time that the provider named: they pass one by one, at a rate that rises
//! while the provider accepts them and is halved when it refuses. Once the provider has refused none of them for
//! [`limits::PACE_CALM`] and none waits, all pass again.
//!
//! One account's requests may be refused for what they are, so they slow down nobody else. When the provider refuses two
//! payers within [`limits::PACE_CALM`], all requests for the model wait in a queue in which accounts take turns, at a
//! common rate: an account that sends many waits longer than one that sends few.
//!
//! Each edge has its own queues. Several edges find their rates together, as each is slowed down by its own refusals.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use domain::PayingAccount;
use edge_metrics as metrics;
use fairness::{TurnBounds, TurnQueue};
use tokio::time::{Instant, sleep_until};

/// The pace of one model at one provider.
pub struct ProviderPace {
    /// Whether any requests wait for their turn.
    is_limited: AtomicBool,
    /// The turn to pass at the common rate, held by one request at a time.
    turn: TurnQueue<PayingAccount>,
    /// The turns to pass at an account's own rate, held by one request of each account at a time.
    own_turns: TurnQueue<PayingAccount>,
    table: Mutex<PaceTable>,
}

struct PaceTable {
    /// The rate of all requests, once the provider has refused two payers.
    all: Option<PaceState>,
    /// By person, or by account if that is unknown.
    payers: HashMap<String, PayerPace>,
    next_cleanup: Instant,
}

#[derive(Default)]
struct PayerPace {
    /// The payer's own rate, since the provider refused one of its requests.
    own: Option<PaceState>,
    waiting: usize,
}

struct PaceState {
    next: Instant,
    gap: Duration,
    refused: Instant,
    /// The time that the provider named with its last refusal.
    retry_after: Duration,
}

/// The request cannot be sent in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceError {
    /// When a retry may succeed.
    pub retry_after: Duration,
}

/// What a request has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PaceStep {
    Passed,
    /// Its payer's own rate.
    AfterOwn(Instant),
    /// The common rate, and its turn if it has none.
    AfterAll(Instant),
}

impl Default for ProviderPace {
    /// Creates a pace at which no request waits, until the provider refuses one.
    fn default() -> Self {
        let table = PaceTable { all: None, payers: HashMap::new(), next_cleanup: Instant::now() };
        Self {
            is_limited: AtomicBool::new(false),
            turn: TurnQueue::new(TurnBounds {
                total: 1,
                share: 1,
                waiting: limits::PACED,
                waiting_share: limits::ACCOUNT_PACED,
            }),
            own_turns: TurnQueue::new(TurnBounds {
                total: limits::PACED,
                share: 1,
                waiting: limits::PACED,
                waiting_share: limits::ACCOUNT_PACED,
            }),
            table: Mutex::new(table),
        }
    }
}

impl ProviderPace {
    /// Returns whether requests of `account` wait for their turn, because the provider has refused some.
    pub fn is_limited(&self, account: &PayingAccount) -> bool {
        self.is_limited.load(Ordering::Relaxed) && {
            let table = self.table();
            table.all.is_some() || table.own(account).is_some()
        }
    }

    /// Passes a request of `account` if it need not wait. Returns whether it passes.
    pub fn try_pass(&self, account: &PayingAccount) -> bool {
        if !self.is_limited.load(Ordering::Relaxed) {
            return true;
        }
        let mut table = self.table();
        let is_in_line = table.payers.get(account.person_or_account()).is_some_and(|payer| payer.waiting > 0)
            || (table.all.is_some() && self.turn.in_use() > 0);
        !is_in_line && table.step(account, true) == PaceStep::Passed
    }

    /// Waits until a request of `account` passes. Fails if that would be after `deadline`, or too many requests wait.
    pub async fn wait(&self, account: &PayingAccount, deadline: Instant) -> Result<(), PaceError> {
        let too_late = || self.table().too_late(account);
        // Checked before queueing: a request that cannot pass in time must not hold up others.
        if self.table().next(account) > deadline {
            return Err(too_late());
        }
        let _waiting = WaitingGuard::new(self, account);
        let patience = || deadline.saturating_duration_since(Instant::now());
        let Ok(_own) = self.own_turns.take(account, patience()).await else { return Err(too_late()) };
        let mut turn = None;
        loop {
            let step = self.table().step(account, turn.is_some());
            let until = match step {
                PaceStep::Passed => return Ok(()),
                PaceStep::AfterOwn(until) => {
                    // The others must not wait for this payer's rate.
                    turn = None;
                    until
                }
                PaceStep::AfterAll(until) => until,
            };
            if until > deadline {
                return Err(too_late());
            }
            if matches!(step, PaceStep::AfterAll(_)) && turn.is_none() {
                let Ok(taken) = self.turn.take(account, patience()).await else { return Err(too_late()) };
                turn = Some(taken);
            } else {
                sleep_until(until).await;
            }
        }
    }

    /// Records that the provider refused a request of `account` sent at `sent`, and accepts the next after
    /// `retry_after` if given.
    pub fn record_refused(&self, account: &PayingAccount, sent: Instant, retry_after: Option<Duration>) {
        let (now, retry_after) = (Instant::now(), retry_after.unwrap_or(limits::PACE_PAUSE));
        let mut table = self.table();
        let payer = account.person_or_account();
        PaceState::refuse(&mut table.payers.entry(payer.to_owned()).or_default().own, now, sent, retry_after);
        let others =
            table.payers.iter().filter(|(other, _)| *other != payer).filter_map(|(_, other)| other.own.as_ref());
        let of_others = others.filter(|own| !own.is_calm(now)).map(|own| own.retry_after).max();
        if let Some(of_others) = of_others {
            // A time that only one payer was given is its own.
            PaceState::refuse(&mut table.all, now, sent, retry_after.min(of_others));
        }
        self.is_limited.store(true, Ordering::Relaxed);
    }

    /// Records that the provider accepted a request of `account`.
    pub fn record_accepted(&self, account: &PayingAccount) {
        if !self.is_limited.load(Ordering::Relaxed) {
            return;
        }
        let (mut table, now) = (self.table(), Instant::now());
        if let Some(own) = table.payers.get_mut(account.person_or_account()).and_then(|payer| payer.own.as_mut()) {
            own.accept();
        }
        if let Some(all) = &mut table.all {
            all.accept();
            if all.is_calm(now) && all.next <= now && self.turn.in_use() == 0 {
                table.all = None;
            }
        }
        table.clean_up(now);
        self.is_limited.store(table.all.is_some() || !table.payers.is_empty(), Ordering::Relaxed);
    }

    fn table(&self) -> MutexGuard<'_, PaceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PaceTable {
    fn own(&self, account: &PayingAccount) -> Option<&PaceState> {
        self.payers.get(account.person_or_account())?.own.as_ref()
    }

    /// Passes a request if it is due. Without its turn, it passes only if there is no common rate.
    fn step(&mut self, account: &PayingAccount, has_turn: bool) -> PaceStep {
        let now = Instant::now();
        let mut own = self.payers.get_mut(account.person_or_account()).and_then(|payer| payer.own.as_mut());
        if let Some(own) = own.as_ref().filter(|own| own.next > now) {
            return PaceStep::AfterOwn(own.next);
        }
        if let Some(all) = self.all.as_ref().filter(|all| !has_turn || all.next > now) {
            return PaceStep::AfterAll(all.next);
        }
        for state in own.iter_mut().map(|own| &mut **own).chain(&mut self.all) {
            state.next = now + state.gap;
        }
        PaceStep::Passed
    }

    /// Returns when the next request of `account` may pass, as far as that is known.
    fn next(&self, account: &PayingAccount) -> Instant {
        let known = self.own(account).into_iter().chain(&self.all).map(|state| state.next);
        known.max().unwrap_or_else(Instant::now)
    }

    fn too_late(&self, account: &PayingAccount) -> PaceError {
        let until = self.next(account).saturating_duration_since(Instant::now());
        PaceError { retry_after: until.max(limits::OVERLOAD_RETRY) }
    }

    /// Forgets payers that the provider has refused nothing for a while.
    fn clean_up(&mut self, now: Instant) {
        if now < self.next_cleanup {
            return;
        }
        self.next_cleanup = now + limits::PACE_FIRST_GAP;
        self.payers.retain(|_, payer| {
            let is_over = |own: &mut PaceState| payer.waiting == 0 && own.is_calm(now) && own.next <= now;
            payer.own.take_if(is_over);
            payer.own.is_some() || payer.waiting > 0
        });
    }
}

impl PaceState {
    /// Begins a rate in `state`, or halves it, after a refusal of a request sent at `sent`.
    fn refuse(state: &mut Option<Self>, now: Instant, sent: Instant, retry_after: Duration) {
        let until = now + retry_after;
        let Some(known) = state else {
            *state = Some(Self { next: until, gap: limits::PACE_FIRST_GAP, refused: now, retry_after });
            return;
        };
        // Requests sent before the last refusal say nothing about the rate since then.
        if sent > known.refused {
            known.gap = (known.gap * 2).min(limits::PACE_LONGEST_GAP);
            known.refused = now;
        }
        known.next = known.next.max(until);
        known.retry_after = retry_after;
    }

    fn accept(&mut self) {
        let gap = self.gap.as_secs_f64();
        // Each second, the rate rises by one request per second plus a quarter of itself.
        let faster = 1.0 / (1.0 / gap + gap + limits::PACE_GROWTH);
        self.gap = Duration::from_secs_f64(faster).max(limits::PACE_SHORTEST_GAP);
    }

    fn is_calm(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.refused) >= limits::PACE_CALM
    }
}

struct WaitingGuard<'p> {
    pace: &'p ProviderPace,
    account: &'p PayingAccount,
}

impl<'p> WaitingGuard<'p> {
    fn new(pace: &'p ProviderPace, account: &'p PayingAccount) -> Self {
        pace.table().payers.entry(account.person_or_account().to_owned()).or_default().waiting += 1;
        metrics::paced().increment(1);
        Self { pace, account }
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        let mut table = self.pace.table();
        let payer = self.account.person_or_account();
        if let Some(of_payer) = table.payers.get_mut(payer) {
            of_payer.waiting -= 1;
            if of_payer.waiting == 0 && of_payer.own.is_none() {
                table.payers.remove(payer);
            }
        }
        metrics::paced().decrement(1);
    }
}

#[cfg(test)]
mod tests;
