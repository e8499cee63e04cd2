//! Spares: reservations that Redis makes along with an admission, for requests that are likely to follow it at once.
//!
//! A request that finds a spare of its key is admitted without a word to Redis, which is a third of all the time that the
//! gateway adds to it. A key has as many made as it has sent requests since it last asked, and none if that was longer than
//! [`SPARE_LIFE`] ago: who asks now and then has each request judged by itself. One that is too small for a request is kept for the
//! next: a key's requests are not all alike.
//!
//! To Redis a spare is a reservation like any other, so no account gets more than its limits by them. It is used within its
//! life, for no more than it holds, and under the same limits and memory of Redis as it was made; or it is given back. Two
//! things keep one that is out from being missed: none is made unless the half of every limit is left, and who is refused
//! for what they hold asks again when they are back ([`SpareStatus::InTheWayFor`]); until then no more are made.
//!
//! When the process dies, the journal knows nothing of a spare that nobody used, so it is released like anything else that no
//! provider was asked for. Redis knows it as one that used nothing until it is told that a request has come for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use ahash::HashMap;
use domain::{
    CompletionId, Timestamp, TokenId,
    usage::{Microcents, UsageRow},
};
use live::budgets::{Judgement, SPARE_LIFE, SpareStatus, Used, Verdict};
use tokio::{sync::Notify, time::sleep};

use super::{ledger::Ledger, refusals::Grounds, tally::Tally};
use crate::limits;

/// The spares of an edge.
pub(super) struct Spares {
    keys: Mutex<HashMap<TokenId, Key>>,
    ledger: Arc<Ledger>,
    /// Notified when there is a key.
    has_keys: Notify,
}

/// A key that has lately asked.
struct Key {
    /// When it last asked Redis.
    asked: Instant,
    /// Its requests since then, that one included.
    requests: usize,
    /// The newest first: they are used from the end.
    spares: Vec<Spare>,
}

/// A spare, which is given back unless it is used.
pub(super) struct Spare {
    /// As Redis has it.
    row: UsageRow,
    tokens: u64,
    cost: Microcents,
    /// The times that came with it. What the account has used by now is in `tally`.
    used: Used,
    tally: Arc<Tally>,
    grounds: Grounds,
    made: Instant,
    is_used: bool,
    ledger: Arc<Ledger>,
}

/// The number of spares that a key is likely to use, to be asked for with its next reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted(usize);

impl Wanted {
    /// No spares.
    pub(super) const NONE: Self = Self(0);

    /// Rows for the spares to be made with `row`, which is of the time `now`.
    pub(super) fn rows(self, row: &UsageRow, now: Timestamp) -> Vec<UsageRow> {
        let mut spare = row.clone();
        spare.set_spare();
        (0..self.0).map(|_| UsageRow { id: CompletionId::new(now), ..spare.clone() }).collect()
    }
}

impl Spares {
    /// None yet.
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self { keys: Mutex::default(), ledger, has_keys: Notify::new() }
    }

    /// Takes a spare that `row` can use at the moment `now`, or says how many are to be made with its own reservation.
    pub(super) fn take(&self, row: &UsageRow, grounds: Grounds, now: Instant) -> Result<Spare, Wanted> {
        // Dropped after the lock is: to be given back each takes the ledger's.
        let mut unfit = Vec::new();
        let mut keys = self.keys();
        let Some(key) = keys.get_mut(&row.token) else {
            if keys.len() < limits::SPARE_KEYS {
                keys.insert(row.token.clone(), Key { asked: now, requests: 1, spares: Vec::new() });
                self.has_keys.notify_one();
            }
            return Err(Wanted::NONE);
        };
        let fits = |spare: &Spare| spare.suffices(row) && spare.holds(row, grounds, now);
        if let Some(place) = key.spares.iter().rposition(fits) {
            key.requests += 1;
            return Ok(key.spares.remove(place));
        }
        // Not looked for while one fits: otherwise they are given back at the end of their life.
        unfit.extend(key.spares.extract_if(.., |spare| !spare.holds(row, grounds, now)));
        let is_busy = now.duration_since(key.asked) < SPARE_LIFE;
        let wanted = if is_busy { key.requests.min(limits::SPARES.saturating_sub(key.spares.len())) } else { 0 };
        (key.asked, key.requests) = (now, 1);
        Err(Wanted(wanted))
    }

    /// Keeps those of `spares` that Redis has made with the reservation of `row`, when it was asked at the moment `asked`. Returns
    /// what that reservation, too, is to be settled in.
    pub(super) fn put(
        &self,
        spares: Vec<UsageRow>,
        row: &UsageRow,
        judgement: Judgement,
        grounds: Grounds,
        asked: Instant,
    ) -> Option<Arc<Tally>> {
        let (Verdict::Admitted(used), SpareStatus::Made(made)) = (judgement.verdict, judgement.spares) else {
            return None;
        };
        let (wanted, tally) = (spares.len(), Arc::new(Tally::new(used)));
        let spare = |spare: UsageRow| Spare {
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
        let spares: Vec<Spare> = spares.into_iter().take(made).map(spare).collect();
        let mut keys = self.keys();
        // Otherwise it has been quiet since, and these are given back at once.
        let Some(key) = keys.get_mut(&row.token) else {
            drop(keys);
            return None;
        };
        if made < wanted {
            // It is near a limit, or somebody waits for spares: it need not ask for so many the next time.
            key.requests = made;
        }
        key.spares.splice(..0, spares);
        (made > 0).then_some(tally)
    }

    /// Gives back what is not used in its life, and forgets keys that are quiet. Does not end.
    pub(super) async fn expire(&self) {
        loop {
            self.has_keys.notified().await;
            while self.give_back_expired(Instant::now()) {
                sleep(limits::SPARES_EVERY).await;
            }
        }
    }

    /// Returns whether keys are left.
    fn give_back_expired(&self, now: Instant) -> bool {
        let mut expired = Vec::new();
        let mut keys = self.keys();
        keys.retain(|_, key| {
            expired.extend(key.spares.extract_if(.., |spare| spare.is_expired(now)));
            !key.spares.is_empty() || now.duration_since(key.asked) < SPARE_LIFE
        });
        !keys.is_empty()
    }

    /// Gives everything back.
    pub(super) fn clear(&self) {
        let keys = std::mem::take(&mut *self.keys());
        drop(keys);
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<TokenId, Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    /// Whether it is as good as the answer that Redis would give now to a request of its size: `row` has the time by Redis's clock.
    fn holds(&self, row: &UsageRow, grounds: Grounds, now: Instant) -> bool {
        // At midnight another day and month begin. While a machine is suspended, only the clock goes on.
        let is_of_now = self.row.day() == row.day() && row.at.since(self.row.at) < SPARE_LIFE;
        let has_ground = (grounds.memory, grounds.budget) == (self.grounds.memory, self.grounds.budget);
        is_of_now && has_ground && !self.is_expired(now)
    }

    /// Whether `row` fits into it.
    fn suffices(&self, row: &UsageRow) -> bool {
        row.tokens() <= self.tokens && row.cost <= self.cost
    }

    fn is_expired(&self, now: Instant) -> bool {
        now.duration_since(self.made) >= SPARE_LIFE
    }

    /// Uses it for a request that reserves so many tokens. Returns the id of its reservation, the judgement, and what the
    /// reservation is to be settled in.
    pub(super) fn admit(mut self, tokens: u64, now: Instant) -> (CompletionId, Judgement, Arc<Tally>) {
        self.is_used = true;
        crate::metrics::spare(true);
        let (requests, tokens) = self.tally.reserve(tokens);
        let frees_in = self.used.frees_in.saturating_sub(now.duration_since(self.made));
        let used = Used { requests, tokens, frees_in, ..self.used };
        let judgement = Judgement { verdict: Verdict::Admitted(used), at: self.row.at, spares: SpareStatus::Made(0) };
        (self.row.id.clone(), judgement, self.tally.clone())
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if !self.is_used {
            crate::metrics::spare(false);
            self.ledger.release_spare(self.row.clone());
        }
    }
}

#[cfg(test)]
mod tests;
