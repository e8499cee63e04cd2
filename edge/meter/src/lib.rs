//! The meter: tracks what an account may still use, and what it has used.
//!
//! A completion passes three steps. **Admission** ([`UsageMeter::admit`]) runs one Redis script. It checks the account's
//! limits (requests a minute, tokens a day, credit a month, and the monthly limits that the account set for all its
//! keys or for one), deducts the most that the completion can use, and reserves the same amount again for [requests
//! that follow shortly](spares). The **[`Reservation`]** holds that amount while the provider works. **Settlement**
//! replaces it with the actual usage: in the [`ledger`] and its [`journal`] before the client has its answer, then in
//! Redis and Postgres by the tasks of [`settlement`]. The scripts are in `live::budgets`. Start with [`UsageMeter::admit`].
//!
//! Each completion is counted once, whichever process is killed and when:
//! - A completion has an id from its admission on, and Postgres accepts one row per id.
//! - The journal records the admission before the provider is contacted, and the usage before the client gets its last
//!   bytes. It is written in the request's own path: a completion whose client has the whole answer must be counted
//!   even if the edge is killed a moment later. A write to the page cache costs microseconds and outlives the process.
//! - An edge adopts the journals that dead edges left in its folder. A completion whose end is not recorded there
//!   counts with its reservation, as an estimate. If no edge adopts the journal, a job of admin finds the reservation
//!   in Redis and does the same. A reservation that the journal does not know never reached a provider: it is released,
//!   unless the machine has restarted or the journal had gaps.
//! - Postgres knows which edges have nothing left to settle. Reservations of theirs that a Redis with outdated data
//!   still has are released.
//! - Rows written to Postgres are kept for some minutes and written again when a copy replaces it.
//! - An estimate is replaced by a usage report that arrives later; no other row changes.

mod admission;
mod charge;
mod check;
mod ends;
#[cfg(test)]
mod fixtures;
mod free_credit;
mod gaps;
mod journal;
mod ledger;
mod orphans;
mod redis_clock;
mod refusals;
mod reservation;
mod settlement;
mod spares;
mod tally;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use config::{Config, models::Model};
use db::gateway::free_credit::DrawnCredit;
use domain::{
    Clock, CompletionId, OrgId, Timestamp,
    month::{Month, next_midnight},
    usage::{LikelyUsage, Microcents, UsageCertainty, UsageDetails, UsageRow},
};
use edge_metrics::postgres_failed;
use live::{
    Redis,
    budgets::{AccountLimits, AdmissionResult, AdmissionVerdict, BudgetUsage},
};
use memory::keys::GatewayKey;
use openai::usage::MaxUsage;
use sqlx::PgPool;
use telemetry::{OutageLine, OutageLog};
use tokio::sync::Semaphore;

pub use self::{
    admission::{AdmissionError, AdmittedCompletion, RateLimit, RateLimits},
    charge::ChargeFlag,
    reservation::Reservation,
    settlement::MeterTasks,
};
use self::{
    check::BudgetError,
    free_credit::{FreeCreditCache, free_org},
    gaps::GapNote,
    ledger::CompletionLedger,
    redis_clock::RedisClock,
    refusals::{RefusalCache, RefusalGrounds},
    spares::{SpareCount, SparePool},
};

/// The meter of an edge. Cheap to clone.
#[derive(Clone)]
pub struct UsageMeter(Arc<MeterState>);

struct MeterState {
    ledger: Arc<CompletionLedger>,
    redis: Redis,
    db: PgPool,
    clock: Arc<RedisClock>,
    refusals: RefusalCache,
    spares: Arc<SparePool>,
    gap_note: GapNote,
    free_credit: FreeCreditCache,
    /// Bounds the concurrent reads of account totals from Postgres.
    total_reads: Semaphore,
}

/// The limits of an account, as configured when the request began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Completions per minute.
    pub requests_per_minute: u64,
    /// Tokens read and written per day.
    pub tokens_per_day: u64,
    /// The plan's credit per month.
    pub credit: Microcents,
}

/// Returns the folder of the journal.
pub fn spool_folder(config: &Config) -> PathBuf {
    config.edge.spool.clone().unwrap_or_else(journal::default_folder)
}

impl UsageMeter {
    /// Creates the meter of the edge named `edge`, and the tasks that must run for its usage to reach Postgres.
    pub fn new(config: &Config, edge: &str, redis: Redis, db: PgPool, clock: Clock) -> (Self, MeterTasks) {
        let ledger = Arc::new(CompletionLedger::new(journal::open(spool_folder(config), edge, &config.postgres.url)));
        let clock = Arc::new(RedisClock::new(clock));
        let spares = Arc::new(SparePool::new(ledger.clone()));
        let tasks =
            MeterTasks::new(ledger.clone(), edge.to_owned(), redis.clone(), db.clone(), clock.clone(), spares.clone());
        let inner = MeterState {
            ledger,
            redis,
            db,
            clock,
            refusals: RefusalCache::new(),
            spares,
            gap_note: GapNote::new(),
            free_credit: FreeCreditCache::new(),
            total_reads: Semaphore::new(limits::SPENT_READS),
        };
        (Self(Arc::new(inner)), tasks)
    }

    /// Sets the function by which the journal knows whether this process has run without interruption; see
    /// [`Spool::set_awake`](spool::Spool::set_awake).
    pub fn set_awake(&self, is_awake: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.ledger.journal.set_awake(is_awake);
    }

    /// Admits a completion of `model` that uses at most `max_usage`, if the account of `key` has that much left of
    /// `allowance`. If its end is never recorded, its prompt counts as `likely_prompt` tokens.
    pub async fn admit(
        &self,
        key: &Arc<GatewayKey>,
        allowance: Allowance,
        model: &Arc<Model>,
        max_usage: MaxUsage,
        likely_prompt: u64,
    ) -> Result<AdmittedCompletion, AdmissionError> {
        let now = match self.0.clock.now() {
            Some(now) => now,
            None => Box::pin(self.redis_time()).await?,
        };
        let free = match free_org(key) {
            None => None,
            Some(org) => {
                Some(FreeOrg { org, credit: allowance.credit, drawn: self.free_credit(org, allowance, now).await? })
            }
        };
        let (prompt, completion) =
            (max_usage.prompt.min(limits::BELIEVED_TOKENS), max_usage.completion.min(limits::BELIEVED_TOKENS));
        let cost = |prompt| model.prices.max_cost(prompt, completion, max_usage.images);
        let likely_prompt = likely_prompt.min(prompt);
        let row = UsageRow {
            id: CompletionId::new(now),
            account: key.account.clone(),
            token: key.token.clone(),
            model: model.id.clone(),
            provider: model.provider.name.clone(),
            prompt,
            completion,
            certainty: UsageCertainty::Reserved,
            cost: cost(prompt),
            likely: Some(LikelyUsage { prompt: likely_prompt, cost: cost(likely_prompt) }),
            details: UsageDetails::default(),
            at: now,
        };
        let budget = AccountLimits {
            per_minute: allowance.requests_per_minute,
            per_day: allowance.tokens_per_day,
            per_month: free.map_or(allowance.credit, |free| free.drawn.part.min(free.credit)).0,
            account_limit: key.account_limit.map(|limit| limit.0),
            key_limit: key.limit.map(|limit| limit.0),
        };
        let ends = self.0.ledger.ends.count(&row.account);
        let grounds = RefusalGrounds { memory: self.0.redis.memory_number(), ends, budget };
        if let Some(judgement) = self.0.refusals.find(&row, now, grounds) {
            return self.decide(judgement, budget, row, model).map_err(|error| mark_shared_credit(error, free));
        }
        if !self.0.ledger.has_room() {
            static FULL: OutageLog = OutageLog::new();
            if let Some(OutageLine { left_out, .. }) = FULL.record_failure() {
                tracing::warn!(left_out, "too much usage waits for Postgres; nothing is admitted until it is there");
            }
            return Err(count_refusal("books", &row, UNAVAILABLE));
        }
        if let Err(error) = journal::set_database_name(&self.0.ledger.journal, &self.0.db).await {
            tracing::debug!(%error, "the database's name cannot be read");
            postgres_failed("name", &error);
            return Err(count_refusal("unavailable", &row, UNAVAILABLE));
        }
        // A reservation in Redis that is not in the journal is released by the edge that adopts a dead edge's journal.
        self.0.ledger.journal.begin();
        let asked = Instant::now();
        // While the journal has gaps, a dead edge's open reservations are settled by Redis's records, which ignore
        // spares.
        let spare =
            if self.0.ledger.has_gaps() { Err(SpareCount::NONE) } else { self.0.spares.take(&row, grounds, asked) };
        let admission = match spare {
            Ok(spare) => {
                let (id, judgement, tally) = spare.admit(row.tokens(), asked);
                let decided = self.decide(judgement, budget, UsageRow { id, ..row }, model);
                let mut admission = decided.map_err(|error| mark_shared_credit(error, free))?;
                admission.reservation.settle_in(tally);
                self.0.ledger.report(admission.reservation.id());
                admission
            }
            Err(wanted) => {
                let asked = Box::pin(self.admit_in_redis(row, grounds, wanted, model, free)).await;
                asked.map_err(|error| mark_shared_credit(error, free))?
            }
        };
        let MeterState { ledger, redis, gap_note, .. } = &*self.0;
        if ledger.has_gaps() && gap_note.ensure(redis, ledger.edge()).await.is_err() {
            admission.reservation.release();
            return Err(UNAVAILABLE);
        }
        Ok(admission)
    }

    /// Runs the admission script in Redis, which also makes spares for likely follow-up requests.
    async fn admit_in_redis(
        &self,
        row: UsageRow,
        mut grounds: RefusalGrounds,
        wanted: SpareCount,
        model: &Arc<Model>,
        free: Option<FreeOrg<'_>>,
    ) -> Result<AdmittedCompletion, AdmissionError> {
        let asked = Instant::now();
        let spares = wanted.rows(&row, row.at);
        let checked = async {
            let mut judgement = self.check(&row, &spares, grounds.budget).await?;
            let Some(FreeOrg { org, credit, .. }) = free else { return Ok::<_, BudgetError>(judgement) };
            for _ in 0..limits::FREE_CREDIT_TRIES {
                let before = grounds.budget.per_month;
                if !matches!(judgement.verdict, AdmissionVerdict::Month(_)) || before >= credit.0 {
                    break;
                }
                let drawn = self.draw_more(org, credit, judgement.at, before, row.cost).await?;
                if drawn.part.0 <= before {
                    break;
                }
                grounds.budget.per_month = drawn.part.min(credit).0;
                judgement = self.check(&row, &[], grounds.budget).await?;
            }
            Ok(judgement)
        };
        let judgement = match checked.await {
            Ok(judgement) => judgement,
            Err(error) => {
                tracing::debug!(%error, "a completion cannot be counted");
                if let BudgetError::Postgres(error) = &error {
                    postgres_failed("sums", error);
                }
                return Err(count_refusal("unavailable", &row, UNAVAILABLE));
            }
        };
        self.0.clock.update(judgement.at);
        self.0.refusals.remember(&row, judgement, grounds);
        let tally = self.0.spares.put(spares, &row, judgement, grounds, asked);
        let mut admission = self.decide(judgement, grounds.budget, row, model)?;
        if let Some(tally) = tally {
            admission.reservation.settle_in(tally);
        }
        Ok(admission)
    }

    /// Returns how much the organization has drawn of the credit that it shares.
    async fn free_credit(
        &self,
        org: &OrgId,
        allowance: Allowance,
        now: Timestamp,
    ) -> Result<DrawnCredit, AdmissionError> {
        if let Some(drawn) = self.0.free_credit.find(org, allowance.credit, now) {
            return Ok(drawn);
        }
        Box::pin(self.drawn_credit(org, allowance.credit, now)).await.map_err(|error| {
            tracing::debug!(%error, account = %org, "it is not known what an organization has drawn of its creator's credit");
            if let BudgetError::Postgres(error) = &error {
                postgres_failed("sums", error);
            }
            metrics::counter!("svc_gateway_refused_total", "why" => "unavailable").increment(1);
            UNAVAILABLE
        })
    }

    /// Reads the time from Redis, for an edge that started while Redis was unavailable: its own clock may be a day off.
    async fn redis_time(&self) -> Result<Timestamp, AdmissionError> {
        match self.0.redis.epoch().await {
            Ok(epoch) => {
                self.0.clock.update(epoch.now);
                Ok(epoch.now)
            }
            Err(error) => {
                tracing::debug!(%error, "it is not known what time it is by Redis's clock");
                metrics::counter!("svc_gateway_refused_total", "why" => "unavailable").increment(1);
                Err(UNAVAILABLE)
            }
        }
    }

    /// Creates the reservation of an admitted completion, or returns why there is none.
    fn decide(
        &self,
        AdmissionResult { verdict, at, .. }: AdmissionResult,
        budget: AccountLimits,
        mut row: UsageRow,
        model: &Arc<Model>,
    ) -> Result<AdmittedCompletion, AdmissionError> {
        let until_midnight = next_midnight(at).since(at);
        let rate_limits = |used| rate_limits(budget, used, until_midnight);
        match verdict {
            AdmissionVerdict::Admitted(used) => {
                edge_metrics::admitted();
                row.at = at;
                let reservation = Reservation::new(self.0.ledger.clone(), row, model.clone());
                Ok(AdmittedCompletion { reservation, rate_limits: rate_limits(used) })
            }
            AdmissionVerdict::Minute(used) => {
                let error = AdmissionError::Requests { rate_limits: rate_limits(used), retry_after: used.frees_in };
                Err(count_refusal("requests", &row, error))
            }
            AdmissionVerdict::Day(used) => {
                let error = AdmissionError::Tokens { rate_limits: rate_limits(used), retry_after: until_midnight };
                Err(count_refusal("tokens", &row, error))
            }
            AdmissionVerdict::Month(_) => Err(count_refusal(
                "credit",
                &row,
                AdmissionError::Credit { retry_after: until_next_month(at), is_shared: false },
            )),
            AdmissionVerdict::AccountLimit(_) => {
                let error = AdmissionError::AccountLimit { retry_after: until_next_month(at) };
                Err(count_refusal("account_limit", &row, error))
            }
            AdmissionVerdict::KeyLimit(_) => {
                let error = AdmissionError::KeyLimit { retry_after: until_next_month(at) };
                Err(count_refusal("key_limit", &row, error))
            }
            AdmissionVerdict::Unknown => Err(count_refusal("unavailable", &row, UNAVAILABLE)),
        }
    }
}

fn rate_limits(budget: AccountLimits, used: BudgetUsage, until_midnight: Duration) -> RateLimits {
    let rate_limit = |limit: u64, used: u64, reset| RateLimit { limit, remaining: limit.saturating_sub(used), reset };
    RateLimits {
        requests: rate_limit(budget.per_minute, used.requests, used.resets_in),
        tokens: rate_limit(budget.per_day, used.tokens, until_midnight),
    }
}

/// The refusal while the meter can admit no one.
const UNAVAILABLE: AdmissionError = AdmissionError::Unavailable { retry_after: limits::METER_RETRY_AFTER };

/// An organization without a subscription, and the credit that it shares with its creator's other ones.
#[derive(Clone, Copy)]
struct FreeOrg<'a> {
    org: &'a OrgId,
    credit: Microcents,
    drawn: DrawnCredit,
}

/// Marks a refusal for lack of credit if the credit is shared.
fn mark_shared_credit(error: AdmissionError, free: Option<FreeOrg<'_>>) -> AdmissionError {
    match error {
        AdmissionError::Credit { retry_after, .. } => {
            AdmissionError::Credit { retry_after, is_shared: free.is_some_and(|free| free.drawn.is_shared) }
        }
        error => error,
    }
}

fn until_next_month(at: Timestamp) -> Duration {
    Month::from_timestamp(at).next().start().since(at)
}

/// Counts and logs a refusal.
fn count_refusal(why: &'static str, row: &UsageRow, error: AdmissionError) -> AdmissionError {
    metrics::counter!("svc_gateway_refused_total", "why" => why).increment(1);
    tracing::debug!(account = %row.account, model = &*row.model, why, "a completion is refused");
    error
}
