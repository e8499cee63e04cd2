//! The remaining budget of an account for the AI gateway, kept in Redis so that it holds over all edges together.
//!
//! A completion can be admitted together with [spares](Redis::admit): reservations for requests that are likely to
//! follow immediately and then need not wait for Redis.
//!
//! Each account has three keys, on the same node of a cluster: `minute` has the times of its recent admissions; `open`
//! has the completions that Postgres does not have yet, each as its future row; `spent` is a hash with the tokens of
//! the day (`dt`) and the cost of the month (`mc`) as Postgres last gave them, with their versions (`dv`, `mv`), the
//! sums of `open` (`dh`, `mh`), and the month's figures for each key that has its own limit.
//!
//! Redis is not the source of truth. A completion is in `open` until Postgres has its row; then [`Redis::confirm`]
//! removes it and replaces the total by Postgres's in one step. Totals are never added up here, so a step that is
//! repeated, lost or late cannot count anything twice. If `spent` is missing, or belongs to another memory of Redis
//! than the present one (`memory`: it was restarted, and may have lost its last moments), [`Redis::admit`] reports that
//! and is called again with Postgres's figures.

mod entries;
mod functions;
mod scripts;

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use domain::{
    Account, CompletionId, Timestamp,
    month::Month,
    usage::{DayUsage, StoredUsage, UsageRow},
};
use redis::{AsyncCommands as _, ErrorKind, RedisError, Script, ServerErrorKind};

use self::entries::{day_number, minute_key, month_number, open_key, parse, spent_key, text, text_before_time};
use super::{
    Redis,
    leases::{MemoryEpoch, SWEEPER, as_millis},
};

const SCAN_STEP: usize = 1_000;

/// The time after its creation within which a spare reservation may be used. Afterwards it is given back.
pub const SPARE_LIFE: Duration = Duration::from_millis(250);

/// The limits of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountLimits {
    /// Completions in any minute.
    pub per_minute: u64,
    /// Tokens in a UTC day.
    pub per_day: u64,
    /// Cost in a UTC month, in microcents: the plan's credit.
    pub per_month: u64,
    /// The account's own limit of the month's cost, in microcents.
    pub account_limit: Option<u64>,
    /// The key's limit of the month's cost, in microcents.
    pub key_limit: Option<u64>,
}

/// The result of an admission, and its time by Redis's clock, which alone decides the charged day and month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionResult {
    /// The result.
    pub verdict: AdmissionVerdict,
    /// The time of the admission.
    pub at: Timestamp,
    /// The state of spares.
    pub spares: SpareStatus,
}

/// The state of an account's spare reservations after an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpareStatus {
    /// This many of the requested spares were made, the first ones.
    Made(usize),
    /// Spares are not the reason for a refusal.
    NotInTheWay,
    /// The request is refused because of spares. Their edge gives them back within this time; afterwards another
    /// process has to, because the edge has died or is suspended.
    InTheWayFor(Duration),
}

/// The result of an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionVerdict {
    /// The sums of the account, or of a key with a limit, are missing. Nothing was done: retry with Postgres's figures.
    Unknown,
    /// Too many completions in the last minute.
    Minute(BudgetUsage),
    /// More tokens than the day has left.
    Day(BudgetUsage),
    /// More than the month's credit has left.
    Month(BudgetUsage),
    /// More than the account's own limit of the month has left.
    AccountLimit(BudgetUsage),
    /// More than the key's limit of the month has left.
    KeyLimit(BudgetUsage),
    /// The reservation was made.
    Admitted(BudgetUsage),
}

/// The part of its limits that an account has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUsage {
    /// Completions in the last minute.
    pub requests: u64,
    /// The time until the oldest of these completions is a minute old and frees a place.
    pub frees_in: Duration,
    /// The time until all of these completions are a minute old.
    pub resets_in: Duration,
    /// Tokens of the day, including reservations.
    pub tokens: u64,
}

/// A completion that Postgres does not have yet, and the edge that will record it.
#[derive(Debug, Clone)]
pub struct OpenCompletion {
    /// The id of the edge.
    pub edge: String,
    /// The completion's future row, as far as it is known.
    pub row: UsageRow,
}

impl OpenCompletion {
    /// Returns whether it was [claimed](Redis::claim). Its edge is then no longer known.
    pub fn is_claimed(&self) -> bool {
        self.edge == SWEEPER
    }
}

/// The outcome of releasing a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The reservation was given back.
    Released,
    /// There is no reservation: it was never made, or is already released or settled.
    Missing,
    /// Another process is settling the completion, or a request has used the spare. It settles without its reservation.
    Claimed,
}

/// The known memory of Redis, and the admission script that belongs to it. Redis forgets scripts when it stops,
/// whatever it persists, and this script names its memory. So the first admission after a restart finds no script, and
/// earlier sums are not mistaken for current ones, without an extra query while a client waits.
#[derive(Clone, Default)]
pub(super) struct RedisMemory(Arc<KnownMemory>);

#[derive(Default)]
struct KnownMemory {
    known: RwLock<Option<KnownScript>>,
    number: AtomicU64,
}

type KnownScript = (MemoryEpoch, Arc<Script>);

impl RedisMemory {
    pub(super) fn update(&self, epoch: &MemoryEpoch) {
        let is_known = |known: &Option<KnownScript>| known.as_ref().is_some_and(|(known, _)| known.is_same(epoch));
        if !is_known(&self.0.known.read().unwrap_or_else(PoisonError::into_inner)) {
            let script = Arc::new(scripts::admission(&epoch.id));
            *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Some((epoch.clone(), script));
            self.0.number.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn admission(&self) -> Option<Arc<Script>> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, script)| script.clone())
    }
}

impl Redis {
    /// Loads the scripts into Redis, so that none has to be sent while a client waits.
    pub async fn load_budgets(&self) -> Result<(), RedisError> {
        for script in [&*scripts::REVALUE, &*scripts::CLOSE, &*scripts::CLAIM] {
            script.load_async(&mut self.commands()).await?;
        }
        self.admission().await?.load_async(&mut self.commands()).await.map(drop)
    }

    /// Returns a number that grows whenever Redis has a new memory. Answers under another number may no longer hold.
    pub fn memory_number(&self) -> u64 {
        self.memory.0.number.load(Ordering::Relaxed)
    }

    /// Reserves the most that `row` can use, if the account has that much left.
    ///
    /// After [`AdmissionVerdict::Unknown`], pass as `base` Postgres's figures for the day of [`AdmissionResult::at`]. The reservation
    /// counts for the day on which it is made, whatever `row` says.
    ///
    /// While every limit is at most half used, the same is reserved for each of `spares` ([`UsageRow::set_spare`]),
    /// which belong to the same key. Each has to be used within [`SPARE_LIFE`] and then [reported](Self::revalue), or
    /// [given back](Self::release).
    pub async fn admit(
        &self,
        edge: &str,
        row: &UsageRow,
        spares: &[UsageRow],
        budget: AccountLimits,
        base: Option<StoredUsage>,
    ) -> Result<AdmissionResult, RedisError> {
        let account = row.account.as_str();
        let call = |script: &Script| {
            let mut call = redis::cmd("EVALSHA");
            call.arg(script.get_hash()).arg(3).arg(spent_key(account)).arg(open_key(account)).arg(minute_key(account));
            call.arg(row.id.as_str()).arg(text_before_time(edge, row)).arg(row.tokens()).arg(row.cost.0);
            call.arg(budget.per_minute).arg(budget.per_day).arg(budget.per_month);
            call.arg(optional_argument(budget.account_limit))
                .arg(optional_argument(budget.key_limit))
                .arg(row.token.as_str());
            call.arg(spares.len());
            for spare in spares {
                call.arg(spare.id.as_str()).arg(text_before_time(edge, spare));
            }
            if let Some(base) = &base {
                call.arg(day_number(base.day)).arg(base.version).arg(base.day_tokens).arg(base.month_cost.0);
                call.arg(optional_argument(base.key_cost.map(|cost| cost.0)));
                for id in &base.last_minute {
                    call.arg(id.as_str());
                }
            }
            call
        };
        let answer = call(&*self.admission().await?).query_async(&mut self.commands()).await;
        let answer = match answer {
            // Redis may have restarted, and what it has is then unreliable.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.epoch().await?;
                let script = self.admission().await?;
                script.load_async(&mut self.commands()).await?;
                call(&script).query_async(&mut self.commands()).await
            }
            answer => answer,
        };
        parse_admission(answer?, spares.len())
    }

    async fn admission(&self) -> Result<Arc<Script>, RedisError> {
        if let Some(script) = self.memory.admission() {
            return Ok(script);
        }
        self.epoch().await?;
        self.memory.admission().ok_or_else(|| (ErrorKind::Client, "the memory of Redis is not known").into())
    }

    /// Replaces an account's open completions by their current figures. A completion that is not open is not opened:
    /// this call may be late, and Postgres may already have it.
    pub async fn revalue(&self, edge: &str, account: &Account, rows: &[&UsageRow]) -> Result<(), RedisError> {
        self.report(edge, account, rows, false).await
    }

    /// Opens completions of an account that Redis may have lost, with their current figures.
    pub async fn restore(&self, edge: &str, account: &Account, rows: &[&UsageRow]) -> Result<(), RedisError> {
        self.report(edge, account, rows, true).await
    }

    async fn report(&self, edge: &str, account: &Account, rows: &[&UsageRow], opens: bool) -> Result<(), RedisError> {
        let script = &scripts::REVALUE;
        let mut call = script.prepare_invoke();
        call.key(spent_key(account.as_str())).key(open_key(account.as_str())).arg(u8::from(opens));
        for row in rows {
            call.arg(row.id.as_str()).arg(text(edge, row)).arg(row.tokens()).arg(row.cost.0);
            call.arg(day_number(row.day())).arg(month_number(row.month()));
        }
        call.invoke_async(&mut self.commands()).await
    }

    /// Closes completions that Postgres has recorded. `spent` is the account's usage including them.
    pub async fn confirm(&self, spent: &DayUsage, ids: &[&CompletionId]) -> Result<(), RedisError> {
        let month = Month::from_date(spent.day);
        self.close(&spent.account, ids, |call| {
            call.arg(spent.spent.version).arg(day_number(spent.day)).arg(spent.spent.day_tokens);
            call.arg(month_number(month)).arg(spent.spent.month_cost.0);
            call.arg(spent.keys.len());
            for key in &spent.keys {
                call.arg(key.token.as_str()).arg(key.month_cost.0);
            }
        })
        .await
        .map(drop)
    }

    /// Gives back the reservations of completions that used nothing. [Spares](UsageRow::is_spare) also give back their
    /// place in the minute, unless a request has used them. Returns the outcome for each.
    pub async fn release<'r>(
        &self,
        account: &Account,
        rows: &[&'r UsageRow],
    ) -> Result<Vec<(&'r UsageRow, ReleaseOutcome)>, RedisError> {
        let (spares, others): (Vec<&UsageRow>, Vec<&UsageRow>) = rows.iter().partition(|row| row.is_spare());
        let mut released = Vec::with_capacity(rows.len());
        // Spares come first, because repeating their release is harmless if the second call fails.
        for (rows, minute) in [(spares, Some(minute_key(account.as_str()))), (others, None)] {
            if rows.is_empty() {
                continue;
            }
            let ids: Vec<&CompletionId> = rows.iter().map(|row| &row.id).collect();
            let closed = self.close(account, &ids, |call| {
                if let Some(minute) = &minute {
                    call.key(minute);
                }
                call.arg("").arg("").arg("").arg("").arg("").arg(0);
            });
            let closed = closed.await?;
            if closed.len() != rows.len() {
                return Err(unknown_reply());
            }
            for (row, closed) in rows.into_iter().zip(closed) {
                released.push((row, parse_release(closed)?));
            }
        }
        Ok(released)
    }

    /// Claims open completions of dead edges, to be settled without them. Returns those that are still open. Until they
    /// are confirmed, [`release`](Self::release) reports the claim to an edge that comes back.
    pub async fn claim(&self, account: &Account, ids: &[&CompletionId]) -> Result<Vec<OpenCompletion>, RedisError> {
        self.note_edge(SWEEPER).await?;
        let mut call = scripts::CLAIM.key(open_key(account.as_str()));
        for id in ids {
            call.arg(id.as_str());
        }
        let entries: Vec<String> = call.invoke_async(&mut self.commands()).await?;
        Ok(entries.iter().filter_map(|entry| parse(entry)).collect())
    }

    async fn close(
        &self,
        account: &Account,
        ids: &[&CompletionId],
        totals: impl FnOnce(&mut redis::ScriptInvocation<'_>),
    ) -> Result<Vec<u8>, RedisError> {
        let script = &scripts::CLOSE;
        let mut call = script.prepare_invoke();
        call.key(spent_key(account.as_str())).key(open_key(account.as_str()));
        totals(&mut call);
        for id in ids {
            call.arg(id.as_str());
        }
        call.invoke_async(&mut self.commands()).await
    }

    /// Returns the accounts with completions that Postgres does not have yet.
    pub async fn accounts_with_open(&self) -> Result<Vec<Account>, RedisError> {
        let mut accounts = Vec::new();
        for node in self.nodes().await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(open_key("*")).arg("COUNT").arg(SCAN_STEP).arg("TYPE").arg("hash");
                let (next, keys): (u64, Vec<String>) = self.query_node(node, scan).await?;
                accounts.extend(keys.iter().filter_map(|key| key.split(['{', '}']).nth(1)?.parse::<Account>().ok()));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        accounts.sort();
        accounts.dedup();
        Ok(accounts)
    }

    /// Returns an account's completions that Postgres does not have yet. Entries that cannot be parsed are omitted.
    pub async fn open_completions(&self, account: &Account) -> Result<Vec<OpenCompletion>, RedisError> {
        let entries: Vec<String> = self.commands().hvals(open_key(account.as_str())).await?;
        Ok(entries.iter().filter_map(|entry| parse(entry)).collect())
    }
}

fn optional_argument(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// The reply of the admission script: the verdict, the requests of the minute, the time until the first and until all
/// of them are a minute old, the tokens of the day, the time of the admission, and the state of spares.
type AdmissionReply = (u8, u64, i64, i64, i64, i64, i64);

/// Parses an admission. Values unknown to this version (another program's script, a later version) admit nothing.
fn parse_admission(
    (status, requests, frees, resets, tokens, at, spares): AdmissionReply,
    wanted: usize,
) -> Result<AdmissionResult, RedisError> {
    let used = BudgetUsage {
        requests,
        frees_in: millis(frees),
        resets_in: millis(resets),
        tokens: u64::try_from(tokens).map_err(|_| unknown_reply())?,
    };
    let verdict = match status {
        0 => AdmissionVerdict::Unknown,
        1 => AdmissionVerdict::Minute(used),
        2 => AdmissionVerdict::Day(used),
        3 => AdmissionVerdict::Month(used),
        4 => AdmissionVerdict::Admitted(used),
        5 => AdmissionVerdict::AccountLimit(used),
        6 => AdmissionVerdict::KeyLimit(used),
        _ => return Err(unknown_reply()),
    };
    let spares = match verdict {
        AdmissionVerdict::Admitted(_) => {
            let made = usize::try_from(spares).ok().filter(|made| *made <= wanted);
            SpareStatus::Made(made.ok_or_else(unknown_reply)?)
        }
        _ if spares < 0 => SpareStatus::NotInTheWay,
        _ => SpareStatus::InTheWayFor(millis(spares)),
    };
    Ok(AdmissionResult { verdict, at: Timestamp::from_unix_millis(at), spares })
}

fn parse_release(closed: u8) -> Result<ReleaseOutcome, RedisError> {
    match closed {
        0 => Ok(ReleaseOutcome::Missing),
        1 => Ok(ReleaseOutcome::Released),
        2 => Ok(ReleaseOutcome::Claimed),
        _ => Err(unknown_reply()),
    }
}

fn unknown_reply() -> RedisError {
    (ErrorKind::UnexpectedReturnType, "a script's answer is not one that this version knows").into()
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_known_admits_nobody() {
        let answer = |status, tokens, spares| parse_admission((status, 1, 0, 0, tokens, 0, spares), 2);
        for status in 0..=u8::MAX {
            let admitted =
                answer(status, 0, 0).map(|judgement| matches!(judgement.verdict, AdmissionVerdict::Admitted(_)));
            assert_eq!(admitted.ok(), (status <= 6).then_some(status == 4), "{status}");
            assert_eq!(parse_release(status).is_ok(), status <= 2, "{status}");
        }
        assert!(answer(4, -1, 0).is_err() && answer(4, 0, -1).is_err(), "nothing is taken for zero");
        assert!(answer(4, 0, 2).is_ok() && answer(4, 0, 3).is_err(), "no more spares than were wanted");
    }
}
