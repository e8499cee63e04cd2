//! Checks in Redis whether an account's budget covers a completion.

use std::time::Instant;

use domain::{
    Account, Timestamp, TokenId,
    usage::{StoredUsage, UsageRow},
};
use live::{
    RedisError,
    budgets::{AccountLimits, AdmissionResult, AdmissionVerdict, SpareStatus},
};
use tokio::time::{sleep, timeout};

use super::{UsageMeter, reservation::PendingAdmission};

#[derive(Debug, thiserror::Error)]
pub(super) enum BudgetError {
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
    #[error("Postgres: {0}")]
    Postgres(#[from] sqlx::Error),
    #[error("the account's totals cannot be read: {0}")]
    Totals(&'static str),
}

impl UsageMeter {
    /// Runs the admission script, and repeats it while the result may change: once Redis has the account's totals, once
    /// pending reports of ended completions have arrived, and once the spares in the way are returned.
    pub(super) async fn check(
        &self,
        row: &UsageRow,
        spares: &[UsageRow],
        budget: AccountLimits,
    ) -> Result<AdmissionResult, BudgetError> {
        // Read before the check: reports may arrive in Redis while its answer is on the way.
        let reported = self.0.ledger.reported();
        let mut judgement = self.run_admission_script(row, spares, budget, None).await?;
        // A second read is needed only if Postgres was written to between the first and its arrival in Redis.
        let mut reads_left = limits::SPENT_READ_TRIES;
        let mut has_waited_for_reports = false;
        let mut no_spares_from = None;
        loop {
            let mut totals = None;
            match judgement {
                AdmissionResult { verdict: AdmissionVerdict::Unknown, at, .. } if reads_left > 0 => {
                    reads_left -= 1;
                    let key = budget.key_limit.map(|_| &row.token);
                    let read =
                        timeout(limits::SPENT_WAIT, self.read_totals(&row.account, key, at, budget.per_minute)).await;
                    totals = Some(read.map_err(|_| BudgetError::Totals("the read takes too long"))??);
                }
                // Redis may not yet know what a completion that has just ended left unused.
                AdmissionResult {
                    verdict:
                        AdmissionVerdict::Day(_)
                        | AdmissionVerdict::Month(_)
                        | AdmissionVerdict::AccountLimit(_)
                        | AdmissionVerdict::KeyLimit(_),
                    ..
                } if !has_waited_for_reports => {
                    has_waited_for_reports = true;
                    if !self.0.ledger.wait_until_reported(reported).await {
                        continue;
                    }
                }
                AdmissionResult { spares: SpareStatus::InTheWayFor(time), .. }
                    if !time.is_zero()
                        && Instant::now() < *no_spares_from.get_or_insert_with(|| Instant::now() + time) =>
                {
                    sleep(limits::SPARES_LOOK_EVERY).await;
                }
                _ => return Ok(judgement),
            }
            judgement = self.run_admission_script(row, &[], budget, totals).await?;
        }
    }

    /// Runs the admission script once. If its answer does not arrive, a reservation that it may have made is released.
    async fn run_admission_script(
        &self,
        row: &UsageRow,
        spares: &[UsageRow],
        budget: AccountLimits,
        totals: Option<StoredUsage>,
    ) -> Result<AdmissionResult, RedisError> {
        let pending = PendingAdmission::new(&self.0.ledger, row, spares);
        let judged = self.0.redis.admit(self.0.ledger.edge(), row, spares, budget, totals).await;
        if judged.as_ref().map_or_else(RedisError::is_connection_refusal, |_| true) {
            pending.mark_decided();
        }
        judged
    }

    /// Reads the totals of the account and of `key` from Postgres, for a Redis that lacks them and whose clock read
    /// `at`. Includes at most `requests` requests of the last minute, which is how many its limit counts.
    async fn read_totals(
        &self,
        account: &Account,
        key: Option<&TokenId>,
        at: Timestamp,
        requests: u64,
    ) -> Result<StoredUsage, BudgetError> {
        let _permit = self.0.total_reads.acquire().await.map_err(|_| BudgetError::Totals("the meter has ended"))?;
        let epoch = self.0.redis.epoch().await?;
        if let Some(pause) = limits::EMPTY_REDIS_PAUSE.checked_sub(epoch.age) {
            sleep(pause).await;
        }
        Ok(db::gateway::ai_usage::find_baseline(&self.0.db, account, key, at, requests).await?)
    }
}
