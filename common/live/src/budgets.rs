//! What an account may still use of the AI gateway, kept in Redis so that all edges count as one.
//!
//! A completion can be admitted together with [spares](Redis::admit): reservations for requests that are likely to follow
//! at once, which then need not wait for Redis.
//!
//! Three keys an account, which live together in a cluster: `minute`, the times of its last admissions; `open`, the
//! completions that Postgres does not have yet, each as the row that it will be; `spent`, a hash of the tokens of the day
//! (`dt`) and the cost of the month (`mc`) as Postgres last gave them, with the version of that (`dv`, `mv`), and the
//! sums of `open` beside them (`dh`, `mh`); and the same of the month for each key that has a limit of its own.
//!
//! Nothing here is the truth. A completion is in `open` until Postgres has its row; then [`Redis::confirm`] takes it
//! out and puts Postgres's own total in the place of the old one, in one step. Totals are never added up here, so a
//! step that is repeated, lost or late cannot count anything twice. When `spent` is gone, or is of another memory of Redis
//! than this one (`memory`: it was restarted, and may have lost its last moment), [`Redis::admit`] says so and is called
//! again with what Postgres holds.

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
    usage::{Base, DaySpent, UsageRow},
};
use redis::{AsyncCommands as _, ErrorKind, RedisError, Script, ServerErrorKind};

use self::entries::{day_number, minute_key, month_number, open_key, parse, spent_key, text, text_before_time};
use super::{
    Redis,
    leases::{Epoch, SWEEPER, whole},
};

/// Keys of one `SCAN` step.
const SCAN_STEP: usize = 1_000;

/// The time from its making within which a spare reservation may be used, and after which it is given back.
pub const SPARE_LIFE: Duration = Duration::from_millis(250);

/// The limits of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
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

/// The result of an admission, and when Redis came to it, by its own clock. No other decides what day and month a completion
/// is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// The result.
    pub verdict: Verdict,
    /// The time of the admission.
    pub at: Timestamp,
    /// What it says of spares.
    pub spares: SpareStatus,
}

/// What an admission says of the account's spare reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpareStatus {
    /// So many of those that were wanted were made, the first ones.
    Made(usize),
    /// The request would be refused without them, too.
    NotInTheWay,
    /// The request is refused for what spares hold. Their edge gives them back within this time; when it is over, somebody else
    /// has to, because their edge has died or sleeps.
    InTheWayFor(Duration),
}

/// The result of an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The account's sums, or those of a key with a limit, are not there. Nothing was done: ask again with what Postgres has.
    Unknown,
    /// Too many completions in the last minute.
    Minute(Used),
    /// More tokens than the day has left.
    Day(Used),
    /// More than the month's credit has left.
    Month(Used),
    /// More than the account's own limit of the month has left.
    AccountLimit(Used),
    /// More than the key's limit of the month has left.
    KeyLimit(Used),
    /// The reservation stands.
    Admitted(Used),
}

/// The part of its limits that an account has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Completions in the last minute.
    pub requests: u64,
    /// Time until the oldest of these completions is a minute old, when there is room again if there was none.
    pub frees_in: Duration,
    /// Time until all of these completions are a minute old.
    pub resets_in: Duration,
    /// Tokens of the day, reservations included.
    pub tokens: u64,
}

/// A completion that Postgres does not have yet, and the edge that is to record it.
#[derive(Debug, Clone)]
pub struct Open {
    /// Id of the edge.
    pub edge: String,
    /// The row that the completion will be, as far as it is known.
    pub row: UsageRow,
}

impl Open {
    /// Whether somebody has [claimed](Redis::claim) it. Then the edge is not known any more.
    pub fn is_claimed(&self) -> bool {
        self.edge == SWEEPER
    }
}

/// What became of a reservation that was to be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It is given back.
    Released,
    /// There is none: it was never made, or is released or settled already.
    Missing,
    /// Somebody is settling the completion, or has asked for it although it was a spare, and will have settled it when its
    /// reservation is missing.
    Claimed,
}

/// The memory of Redis that is known, and the script of admission that goes with it.
///
/// Redis forgets scripts when it ends, whatever it saves; and this one names the memory it is for. So the first admission
/// after a restart finds no script, whoever asks, and sums of an earlier memory are not taken for those of this one,
/// although nobody asks which it is while a client waits.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Present>);

#[derive(Default)]
struct Present {
    known: RwLock<Option<Known>>,
    /// How many memories have been known.
    number: AtomicU64,
}

type Known = (Epoch, Arc<Script>);

impl Memory {
    pub(super) fn is(&self, epoch: &Epoch) {
        let is_known = |known: &Option<Known>| known.as_ref().is_some_and(|(known, _)| known.is_same(epoch));
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

    /// Returns a number that grows whenever Redis is found to have another memory than before: what Redis answered under
    /// another number may not hold any more.
    pub fn memory_number(&self) -> u64 {
        self.memory.0.number.load(Ordering::Relaxed)
    }

    /// Reserves what `row` can use at most, if the account has so much left. After [`Verdict::Unknown`], `base` is what
    /// Postgres holds for the day of [`Judgement::at`]. The reservation is of the day on which it is made, whatever `row` says.
    ///
    /// While no limit is used by more than half, as much is reserved for each of `spares` ([`UsageRow::set_spare`]), which are of
    /// the same key. Each must be used within [`SPARE_LIFE`], and then be [reported](Self::revalue), or else be
    /// [given back](Self::release).
    pub async fn admit(
        &self,
        edge: &str,
        row: &UsageRow,
        spares: &[UsageRow],
        budget: Budget,
        base: Option<Base>,
    ) -> Result<Judgement, RedisError> {
        let account = row.account.as_str();
        let call = |script: &Script| {
            let mut call = redis::cmd("EVALSHA");
            call.arg(script.get_hash()).arg(3).arg(spent_key(account)).arg(open_key(account)).arg(minute_key(account));
            call.arg(row.id.as_str()).arg(text_before_time(edge, row)).arg(row.tokens()).arg(row.cost.0);
            call.arg(budget.per_minute).arg(budget.per_day).arg(budget.per_month);
            call.arg(or_empty(budget.account_limit)).arg(or_empty(budget.key_limit)).arg(row.token.as_str());
            call.arg(spares.len());
            for spare in spares {
                call.arg(spare.id.as_str()).arg(text_before_time(edge, spare));
            }
            if let Some(base) = &base {
                call.arg(day_number(base.day)).arg(base.version).arg(base.day_tokens).arg(base.month_cost.0);
                call.arg(or_empty(base.key_cost.map(|cost| cost.0)));
                for id in &base.last_minute {
                    call.arg(id.as_str());
                }
            }
            call
        };
        let answer = call(&*self.admission().await?).query_async(&mut self.commands()).await;
        let answer = match answer {
            // It knows no such script: it may have begun anew, and then what it holds is not to be relied on.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.epoch().await?;
                let script = self.admission().await?;
                script.load_async(&mut self.commands()).await?;
                call(&script).query_async(&mut self.commands()).await
            }
            answer => answer,
        };
        judgement(answer?, spares.len())
    }

    /// The script of admission for the memory of Redis that is known.
    async fn admission(&self) -> Result<Arc<Script>, RedisError> {
        if let Some(script) = self.memory.admission() {
            return Ok(script);
        }
        self.epoch().await?;
        self.memory.admission().ok_or_else(|| (ErrorKind::Client, "the memory of Redis is not known").into())
    }

    /// Replaces an account's open completions by what is known of them now. One that is not open stays so: Postgres may have
    /// it by now, if this arrives late.
    pub async fn revalue(&self, edge: &str, account: &Account, rows: &[&UsageRow]) -> Result<(), RedisError> {
        self.report(edge, account, rows, false).await
    }

    /// Opens completions of an account that Redis may have lost, as what is known of them now.
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

    /// Closes completions that Postgres has recorded. `spent` is the account's usage with these included.
    pub async fn confirm(&self, spent: &DaySpent, ids: &[&CompletionId]) -> Result<(), RedisError> {
        let month = Month::containing(spent.day);
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

    /// Gives back reservations of completions that used nothing; of [spares](UsageRow::is_spare) their place in the minute, too, unless a
    /// request has come for them meanwhile. Returns what became of each.
    pub async fn release<'r>(
        &self,
        account: &Account,
        rows: &[&'r UsageRow],
    ) -> Result<Vec<(&'r UsageRow, Release)>, RedisError> {
        let (spares, others): (Vec<&UsageRow>, Vec<&UsageRow>) = rows.iter().partition(|row| row.is_spare());
        let mut released = Vec::with_capacity(rows.len());
        // A spare that is released again is missing, and that is all. So they come first: the others may fail.
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
                return Err(unknown_answer());
            }
            for (row, closed) in rows.into_iter().zip(closed) {
                released.push((row, outcome(closed)?));
            }
        }
        Ok(released)
    }

    /// Claims open completions of edges that are gone, which are to be settled without them. Returns those that are still
    /// open. Until they are confirmed, an edge that comes back is told so by [`release`](Self::release).
    pub async fn claim(&self, account: &Account, ids: &[&CompletionId]) -> Result<Vec<Open>, RedisError> {
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
                let (next, keys): (u64, Vec<String>) = self.ask(node, scan).await?;
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

    /// Returns the completions of an account that Postgres does not have yet. Entries that cannot be parsed are left
    /// out.
    pub async fn open_of(&self, account: &Account) -> Result<Vec<Open>, RedisError> {
        let entries: Vec<String> = self.commands().hvals(open_key(account.as_str())).await?;
        Ok(entries.iter().filter_map(|entry| parse(entry)).collect())
    }
}

/// The argument of a script that may be absent.
fn or_empty(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// What the script of admission returns: the verdict, the requests of the minute, the time until the first and until all of them are
/// a minute old, the tokens of the day, the time of the admission, and what it says of spares.
type Admission = (u8, u64, i64, i64, i64, i64, i64);

/// Reads an admission. Only the words that the script has are understood: an answer of another program under the same name, or of a
/// later version of the script, admits nobody.
fn judgement(
    (status, requests, frees, resets, tokens, at, spares): Admission,
    wanted: usize,
) -> Result<Judgement, RedisError> {
    let used = Used {
        requests,
        frees_in: millis(frees),
        resets_in: millis(resets),
        tokens: u64::try_from(tokens).map_err(|_| unknown_answer())?,
    };
    let verdict = match status {
        0 => Verdict::Unknown,
        1 => Verdict::Minute(used),
        2 => Verdict::Day(used),
        3 => Verdict::Month(used),
        4 => Verdict::Admitted(used),
        5 => Verdict::AccountLimit(used),
        6 => Verdict::KeyLimit(used),
        _ => return Err(unknown_answer()),
    };
    let spares = match verdict {
        Verdict::Admitted(_) => {
            let made = usize::try_from(spares).ok().filter(|made| *made <= wanted);
            SpareStatus::Made(made.ok_or_else(unknown_answer)?)
        }
        _ if spares < 0 => SpareStatus::NotInTheWay,
        _ => SpareStatus::InTheWayFor(millis(spares)),
    };
    Ok(Judgement { verdict, at: Timestamp::from_unix_millis(at), spares })
}

/// What the script says became of a reservation.
fn outcome(closed: u8) -> Result<Release, RedisError> {
    match closed {
        0 => Ok(Release::Missing),
        1 => Ok(Release::Released),
        2 => Ok(Release::Claimed),
        _ => Err(unknown_answer()),
    }
}

fn unknown_answer() -> RedisError {
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
        let answer = |status, tokens, spares| judgement((status, 1, 0, 0, tokens, 0, spares), 2);
        for status in 0..=u8::MAX {
            let admitted = answer(status, 0, 0).map(|judgement| matches!(judgement.verdict, Verdict::Admitted(_)));
            assert_eq!(admitted.ok(), (status <= 6).then_some(status == 4), "{status}");
            assert_eq!(outcome(status).is_ok(), status <= 2, "{status}");
        }
        assert!(answer(4, -1, 0).is_err() && answer(4, 0, -1).is_err(), "nothing is taken for zero");
        assert!(answer(4, 0, 2).is_ok() && answer(4, 0, 3).is_err(), "no more spares than were wanted");
    }
}
