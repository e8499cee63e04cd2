//! Spares: reservations that Redis makes along with an admission, for requests that are likely to follow shortly.
//!
//! A request that finds a spare of its key is admitted without a round trip to Redis, which is a third of the latency
//! that the gateway adds. A key gets as many spares as it has sent requests since its last admission in Redis, and none
//! if that was longer than [`SPARE_LIFE`] ago: occasional requests are each judged by themselves. A spare that is too
//! small for a request is kept for the next, since a key's requests differ in size.
//!
//! To Redis a spare is a reservation like any other, so spares never exceed an account's limits. A spare is used within
//! its lifetime, for no more than it holds, and only while the limits and Redis's memory are those it was made under;
//! otherwise it is returned. Two rules keep outstanding spares from causing refusals: none are made unless half of
//! every limit is left, and a request refused because of spares is retried once they are back
//! ([`SpareStatus::InTheWayFor`]), with no more made until then.
//!
//! If the process dies, unused spares are not in the journal, so they are released like any reservation that was not
//! sent to a provider. In Redis a spare counts as unused until a request that uses it is reported.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use ahash::HashMap;
use domain::{
    CompletionId, Timestamp, TokenId,
    usage::{Microcents, UsageRow},
};
use live::budgets::{AdmissionResult, AdmissionVerdict, BudgetUsage, SPARE_LIFE, SpareStatus};
use tokio::{sync::Notify, time::sleep};

use super::{ledger::CompletionLedger, refusals::RefusalGrounds, tally::UsageTally};

pub(super) struct SparePool {
    keys: Mutex<HashMap<TokenId, KeyActivity>>,
    ledger: Arc<CompletionLedger>,
    has_keys: Notify,
}

struct KeyActivity {
    /// When the key was last admitted in Redis.
    asked: Instant,
    /// The number of requests since then, including that one.
    requests: usize,
    /// Newest first; spares are used from the end.
    spares: Vec<SpareReservation>,
}

/// A spare reservation, returned on drop unless it is used.
pub(super) struct SpareReservation {
    /// The row in Redis.
    row: UsageRow,
    tokens: u64,
    cost: Microcents,
    /// The times from its admission. `tally` has the account's current usage.
    used: BudgetUsage,
    tally: Arc<UsageTally>,
    grounds: RefusalGrounds,
    made: Instant,
    is_used: bool,
    ledger: Arc<CompletionLedger>,
}

/// The number of spares that a key is likely to use, requested with its next reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpareCount(usize);

impl SpareCount {
    pub(super) const NONE: Self = Self(0);

    /// Creates rows for the spares that are made with `row`, at time `now`.
    pub(super) fn rows(self, row: &UsageRow, now: Timestamp) -> Vec<UsageRow> {
        let mut spare = row.clone();
        spare.set_spare();
        (0..self.0).map(|_| UsageRow { id: CompletionId::new(now), ..spare.clone() }).collect()
    }
}

impl SparePool {
    pub(super) fn new(ledger: Arc<CompletionLedger>) -> Self {
        Self { keys: Mutex::default(), ledger, has_keys: Notify::new() }
    }

    /// Takes a spare that fits `row` at `now`, or returns how many to make with its own reservation.
    pub(super) fn take(
        &self,
        row: &UsageRow,
        grounds: RefusalGrounds,
        now: Instant,
    ) -> Result<SpareReservation, SpareCount> {
        // Declared first, so that the spares are dropped after the lock is released: returning one locks the ledger.
        let mut unfit = Vec::new();
        let mut keys = self.keys();
        let Some(key) = keys.get_mut(&row.token) else {
            if keys.len() < limits::SPARE_KEYS {
                keys.insert(row.token.clone(), KeyActivity { asked: now, requests: 1, spares: Vec::new() });
                self.has_keys.notify_one();
            }
            return Err(SpareCount::NONE);
        };
        let fits = |spare: &SpareReservation| spare.is_large_enough_for(row) && spare.is_valid_for(row, grounds, now);
        if let Some(place) = key.spares.iter().rposition(fits) {
            key.requests += 1;
            return Ok(key.spares.remove(place));
        }
        // Only searched if none fits. Otherwise such spares are returned when they expire.
        unfit.extend(key.spares.extract_if(.., |spare| !spare.is_valid_for(row, grounds, now)));
        let is_busy = now.duration_since(key.asked) < SPARE_LIFE;
        let wanted = if is_busy { key.requests.min(limits::SPARES.saturating_sub(key.spares.len())) } else { 0 };
        (key.asked, key.requests) = (now, 1);
        Err(SpareCount(wanted))
    }

    /// Keeps those of `spares` that Redis made with the reservation of `row` in an admission that began at `asked`.
    /// Returns the tally in which that reservation is settled as well.
    pub(super) fn put(
        &self,
        spares: Vec<UsageRow>,
        row: &UsageRow,
        judgement: AdmissionResult,
        grounds: RefusalGrounds,
        asked: Instant,
    ) -> Option<Arc<UsageTally>> {
        let (AdmissionVerdict::Admitted(used), SpareStatus::Made(made)) = (judgement.verdict, judgement.spares) else {
            return None;
        };
        let (wanted, tally) = (spares.len(), Arc::new(UsageTally::new(used)));
        let spare = |spare: UsageRow| SpareReservation {
            row: UsageRow { at: judgement.at, ..spare },
            tokens: row.tokens(),
            cost: row.cost,
            used,
            tally: tally.clone(),
            grounds,
            made: asked,
            is_used: false,
            ledger: self.ledger.clone(),
        };
        let spares: Vec<SpareReservation> = spares.into_iter().take(made).map(spare).collect();
        let mut keys = self.keys();
        // Otherwise the key has been quiet meanwhile, and these are returned immediately.
        let Some(key) = keys.get_mut(&row.token) else {
            drop(keys);
            return None;
        };
        if made < wanted {
            // The key is near a limit, or another request waits for spares, so it asks for fewer next time.
            key.requests = made;
        }
        key.spares.splice(..0, spares);
        (made > 0).then_some(tally)
    }

    /// Returns expired spares and forgets quiet keys. Runs forever.
    pub(super) async fn expire(&self) {
        loop {
            self.has_keys.notified().await;
            while self.return_expired(Instant::now()) {
                sleep(limits::SPARES_EVERY).await;
            }
        }
    }

    /// Returns expired spares. The result is whether keys remain.
    fn return_expired(&self, now: Instant) -> bool {
        let mut expired = Vec::new();
        let mut keys = self.keys();
        keys.retain(|_, key| {
            expired.extend(key.spares.extract_if(.., |spare| spare.is_expired(now)));
            !key.spares.is_empty() || now.duration_since(key.asked) < SPARE_LIFE
        });
        !keys.is_empty()
    }

    pub(super) fn clear(&self) {
        let keys = std::mem::take(&mut *self.keys());
        drop(keys);
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<TokenId, KeyActivity>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpareReservation {
    /// Returns whether Redis would still admit a request of the spare's size. `row` has the time by Redis's clock.
    fn is_valid_for(&self, row: &UsageRow, grounds: RefusalGrounds, now: Instant) -> bool {
        // At midnight another day or month begins. While a machine is suspended, only the clock advances.
        let is_of_now = self.row.day() == row.day() && row.at.since(self.row.at) < SPARE_LIFE;
        let has_ground = (grounds.memory, grounds.budget) == (self.grounds.memory, self.grounds.budget);
        is_of_now && has_ground && !self.is_expired(now)
    }

    fn is_large_enough_for(&self, row: &UsageRow) -> bool {
        row.tokens() <= self.tokens && row.cost <= self.cost
    }

    fn is_expired(&self, now: Instant) -> bool {
        now.duration_since(self.made) >= SPARE_LIFE
    }

    /// Uses the spare for a request that reserves `tokens`. Returns the id of its reservation, the judgement, and the
    /// tally in which to settle it.
    pub(super) fn admit(mut self, tokens: u64, now: Instant) -> (CompletionId, AdmissionResult, Arc<UsageTally>) {
        self.is_used = true;
        edge_metrics::spare(true);
        let (requests, tokens) = self.tally.reserve(tokens);
        let frees_in = self.used.frees_in.saturating_sub(now.duration_since(self.made));
        let used = BudgetUsage { requests, tokens, frees_in, ..self.used };
        let judgement = AdmissionResult {
            verdict: AdmissionVerdict::Admitted(used),
            at: self.row.at,
            spares: SpareStatus::Made(0),
        };
        (self.row.id.clone(), judgement, self.tally.clone())
    }
}

impl Drop for SpareReservation {
    fn drop(&mut self) {
        if !self.is_used {
            edge_metrics::spare(false);
            self.ledger.release_spare(self.row.clone());
        }
    }
}

#[cfg(test)]
mod tests;
