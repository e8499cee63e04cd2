//! Settlement: the tasks that write the ledger's completions to Postgres and keep Redis in step.

mod adoption;
mod confirmation;
mod failover;
mod settled_edges;
mod sync;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use db::gateway::ai_usage;
use domain::{
    Account, Timestamp,
    usage::{DayUsage, UsageRow},
};
use edge_metrics::postgres_failed;
use futures_util::future::join_all;
use live::{
    Redis, RedisError,
    budgets::OpenCompletion,
    leases::{LOOK_EVERY, MemoryEpoch},
};
use sqlx::PgPool;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    confirmation::{UnconfirmedBatch, group_by_totals},
    failover::FailoverReplay,
};
use super::{
    ledger::{CompletionLedger, RedisReport},
    orphans,
    redis_clock::RedisClock,
    spares::SparePool,
};

/// The pause after a failed Redis command.
const REDIS_PAUSE: Duration = Duration::from_millis(200);

/// The background tasks of a [`UsageMeter`](super::UsageMeter), created with it and run once.
pub struct MeterTasks {
    ledger: Arc<CompletionLedger>,
    edge: String,
    redis: Redis,
    db: PgPool,
    clock: Arc<RedisClock>,
    spares: Arc<SparePool>,
    /// When Redis was last found to have lost its memory.
    last_redis_loss: watch::Sender<Option<Timestamp>>,
}

/// Postgres refused a batch of usage, which is queued again.
struct WriteError;

impl MeterTasks {
    pub(super) fn new(
        ledger: Arc<CompletionLedger>,
        edge: String,
        redis: Redis,
        db: PgPool,
        clock: Arc<RedisClock>,
        spares: Arc<SparePool>,
    ) -> Self {
        Self { ledger, edge, redis, db, clock, spares, last_redis_loss: watch::Sender::new(None) }
    }

    /// Runs until `stop` is cancelled, then writes ended completions to Postgres within [`limits::METER_END_WAIT`].
    pub async fn run(self, stop: CancellationToken) {
        let work = async {
            tokio::join!(
                self.report_usage(),
                self.renew_lease(),
                self.release_orphans(),
                self.adopt_journals(),
                self.sync_while_behind(),
                self.spares.expire(),
            )
        };
        let write = self.write_usage(&stop);
        tokio::pin!(work);
        tokio::select! {
            // These tasks never end.
            _ = &mut work => {}
            () = write => {}
        }
    }

    /// Reports the usage of completions to Redis, so that what they left unused becomes available.
    async fn report_usage(&self) {
        loop {
            let changes = self.ledger.has_changes.notified();
            let ended = self.ledger.ended();
            let used = self.ledger.take_to_revalue(limits::REDIS_BATCH);
            let unused = self.ledger.take_to_release(limits::REDIS_BATCH);
            if used.is_empty() && unused.is_empty() {
                self.ledger.mark_reported(ended);
                // With a timeout, since a queued release may become due by time alone.
                let _ = timeout(LOOK_EVERY, changes).await;
                // Not right when a provider answers or a client sends its next request.
                let _ = timeout(limits::REPORT_EVERY_ENDED, self.ledger.is_urgent.notified()).await;
                continue;
            }
            let is_all = used.len() < limits::REDIS_BATCH && unused.len() < limits::REDIS_BATCH;
            let mut accounts: BTreeMap<(&Account, bool), Vec<&RedisReport>> = BTreeMap::new();
            for report in &used {
                accounts.entry((&report.row.account, report.is_lost)).or_default().push(report);
            }
            let revalued = join_all(accounts.into_iter().map(async |((account, is_lost), reports)| {
                let rows: Vec<&UsageRow> = reports.iter().map(|report| &report.row).collect();
                let reported = if is_lost {
                    self.redis.restore(&self.edge, account, &rows).await
                } else {
                    self.redis.revalue(&self.edge, account, &rows).await
                };
                for report in reports {
                    self.ledger.finish_revalue(report, reported.is_ok());
                }
                reported
            }));
            let mut accounts: BTreeMap<&Account, Vec<&UsageRow>> = BTreeMap::new();
            for row in &unused {
                accounts.entry(&row.account).or_default().push(row);
            }
            let released = join_all(accounts.into_iter().map(async |(account, rows)| {
                let released = self.redis.release(account, &rows).await;
                let outcomes: HashMap<_, _> =
                    released.iter().flatten().map(|(row, outcome)| (&row.id, *outcome)).collect();
                for row in rows {
                    self.ledger.finish_release(&row.id, outcomes.get(&row.id).copied());
                }
                released.map(drop)
            }));
            let (revalued, released) = tokio::join!(revalued, released);
            if let Some(error) = revalued.into_iter().chain(released).find_map(Result::err) {
                tracing::debug!(%error, "usage cannot be reported to Redis");
                sleep(REDIS_PAUSE).await;
            } else if is_all {
                self.ledger.mark_reported(ended);
                // Batches the completions that end meanwhile, since each report delays an admission in Redis.
                let _ = timeout(limits::REPORT_EVERY_ENDED, self.ledger.is_urgent.notified()).await;
            }
        }
    }

    /// Renews the lease that shows that this edge is alive, and reports everything again to a Redis that lost its
    /// memory.
    async fn renew_lease(&self) {
        let mut known_epoch: Option<MemoryEpoch> = None;
        let mut beat = interval(LOOK_EVERY);
        let mut looks = 0_u32;
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = self.ledger.has_new_gap.notified() => {}
            }
            // A lease outlives several checks, and its notes only need renewal now and then. A check that finds Redis's
            // memory lost renews everything.
            let looked = match looks % limits::CHECKS_PER_RENEWAL {
                0 => self.redis.renew_lease(&self.edge).await,
                look if look % 2 == 0 => self.redis.extend_lease(&self.edge).await,
                _ => self.redis.epoch().await,
            };
            let is_lost = |epoch: &MemoryEpoch| known_epoch.as_ref().is_some_and(|known| !known.is_same(epoch));
            let renewed = match looked {
                Ok(epoch) if is_lost(&epoch) => self.redis.renew_lease(&self.edge).await,
                looked => looked,
            };
            looks = if renewed.is_ok() { looks.wrapping_add(1) } else { 0 };
            if self.ledger.has_gaps()
                && let Err(error) = self.redis.note_gaps(&self.edge).await
            {
                tracing::debug!(%error, "the gaps of the journal cannot be noted");
            }
            edge_metrics::level("svc_gateway_redis_up", usize::from(renewed.is_ok()));
            match renewed {
                Ok(epoch) => {
                    let skew = self.clock.update(epoch.now);
                    metrics::gauge!("svc_gateway_clock_skew_seconds").set(skew);
                    let is_new = known_epoch.as_ref().is_none_or(|known| !known.is_same(&epoch));
                    if is_new && let Err(error) = self.redis.load_budgets().await {
                        tracing::debug!(%error, "the scripts cannot be loaded");
                    }
                    if is_new && let Ok(Some(policy)) = self.redis.eviction_policy().await {
                        tracing::warn!(
                            policy,
                            "Redis evicts keys when its memory is full, and budgets with them: set maxmemory-policy to noeviction"
                        );
                    }
                    if is_new && known_epoch.is_some() {
                        tracing::warn!(
                            open = self.ledger.len(),
                            "Redis has lost its memory; reporting what is under way"
                        );
                        self.ledger.report_all();
                        self.last_redis_loss.send_replace(self.clock.now());
                    }
                    known_epoch = Some(epoch);
                }
                Err(error) => tracing::debug!(%error, "the lease cannot be renewed"),
            }
            let (open, backlog) = self.ledger.pending_and_unwritten();
            edge_metrics::level("svc_gateway_open", open);
            edge_metrics::level("svc_gateway_journal_backlog", backlog);
        }
    }

    /// Releases reservations that Redis has restored although their completions have ended.
    ///
    /// A Redis that restarts from a snapshot may have lost the last moments, including ends of completions that are no
    /// longer in the ledger. Without this task they would go unreported, and the account would miss the reserved
    /// amounts.
    async fn release_orphans(&self) {
        let mut redis_loss = self.last_redis_loss.subscribe();
        while redis_loss.changed().await.is_ok() {
            // After this pause, every completion admitted before the loss is in the ledger, or never will be.
            sleep(limits::DISOWN_AFTER).await;
            let Some(before) = *redis_loss.borrow_and_update() else { continue };
            while let Err(error) = self.release_orphans_before(before).await {
                tracing::debug!(%error, "the open completions cannot be read from Redis");
                sleep(REDIS_PAUSE).await;
            }
        }
    }

    async fn release_orphans_before(&self, before: Timestamp) -> Result<(), RedisError> {
        let is_orphan = |open: &OpenCompletion| {
            open.edge == self.edge && open.row.at < before && !self.ledger.contains(&open.row.id)
        };
        let completions = orphans::release(&self.redis, is_orphan).await?;
        if completions > 0 {
            tracing::info!(completions, "released reservations of completions that had ended");
        }
        Ok(())
    }

    /// Writes ended completions to Postgres, and confirms them to Redis with the accounts' new totals.
    async fn write_usage(&self, stop: &CancellationToken) {
        let mut unconfirmed: Vec<UnconfirmedBatch> = Vec::new();
        let mut replay = FailoverReplay::default();
        let mut is_failing = false;
        loop {
            let pause = if is_failing { limits::USAGE_RETRY } else { limits::USAGE_EVERY };
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
            // Runs between two writes: rows in the middle of being written would seem neither lost nor new.
            if stop.run_until_cancelled(self.replay_lost(&mut replay, &mut unconfirmed)).await.is_none() {
                break;
            }
            is_failing = self.write_all(&mut unconfirmed, is_failing).await.is_err();
            self.confirm_all(&mut unconfirmed).await;
        }
        self.finish(&mut unconfirmed).await;
    }

    /// Writes the completions that have ended by now to Postgres, except rows that Postgres refuses and those of
    /// accounts locked by another writer. Stops with an error if Postgres does not respond.
    async fn write_all(&self, unconfirmed: &mut Vec<UnconfirmedBatch>, was_failing: bool) -> Result<(), WriteError> {
        let mut left = Vec::new();
        // Completions that end meanwhile wait for the next round: otherwise a busy edge would never confirm any.
        let mut waiting = self.ledger.waiting_to_write();
        let outcome = loop {
            let rows = self.ledger.take_to_write(limits::USAGE_BATCH.min(waiting));
            if rows.is_empty() {
                break Ok(());
            }
            waiting -= rows.len();
            if let Err(error) = self.write_divided(rows, unconfirmed, &mut left).await {
                postgres_failed("usage", &error);
                if !was_failing {
                    tracing::warn!(%error, "Postgres does not take usage; it is kept in the journal and tried again");
                }
                break Err(WriteError);
            }
            if was_failing && left.is_empty() {
                tracing::info!("Postgres takes usage again");
            }
        };
        self.ledger.requeue_unwritten(&left);
        outcome
    }

    /// Writes a batch. A batch that Postgres refuses is halved until the refused row is alone, so that it does not
    /// block others. Rows that are not written are added to `left`.
    async fn write_divided(
        &self,
        rows: Vec<UsageRow>,
        unconfirmed: &mut Vec<UnconfirmedBatch>,
        left: &mut Vec<UsageRow>,
    ) -> Result<(), sqlx::Error> {
        let mut batches = vec![rows];
        while let Some(mut rows) = batches.pop() {
            let recorded = timeout(limits::USAGE_WAIT, ai_usage::record(&self.db, &rows)).await;
            match recorded.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
                Ok(totals) => self.mark_written(totals, rows, unconfirmed, left),
                Err(error) if ai_usage::is_refusal(&error) => {
                    tracing::debug!(%error, rows = rows.len(), "Postgres refuses usage");
                    if rows.len() > 1 {
                        batches.push(rows.split_off(rows.len() / 2));
                        batches.push(rows);
                    } else {
                        postgres_failed("usage", &error);
                        left.append(&mut rows);
                    }
                }
                Err(error) => {
                    left.append(&mut rows);
                    left.extend(batches.into_iter().rev().flatten());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Marks those of `rows` as written that Postgres has, which are those of the accounts and days in `totals`.
    fn mark_written(
        &self,
        totals: Vec<DayUsage>,
        rows: Vec<UsageRow>,
        unconfirmed: &mut Vec<UnconfirmedBatch>,
        left: &mut Vec<UsageRow>,
    ) {
        let has = |row: &UsageRow| totals.iter().any(|of| of.account == row.account && of.day == row.day());
        let (written, held): (Vec<_>, Vec<_>) = rows.into_iter().partition(has);
        metrics::counter!("svc_gateway_settled_total").increment(written.len() as u64);
        self.ledger.mark_written(&written);
        unconfirmed.extend(group_by_totals(totals, &written));
        left.extend(held);
    }

    /// Reports releases to Redis, and writes and confirms ended completions, as time permits. The journal keeps the
    /// rest.
    async fn finish(&self, unconfirmed: &mut Vec<UnconfirmedBatch>) {
        let deadline = Instant::now() + limits::METER_END_WAIT;
        self.spares.clear();
        let mut is_noted = false;
        let writing = async {
            let told = self.ledger.wait_until_reported(self.ledger.reported());
            let _ = tokio::join!(told, self.write_all(unconfirmed, false));
            // Withdraws what others have settled.
            let _ = self.write_all(unconfirmed, false).await;
            self.confirm_all(unconfirmed).await;
            if self.ledger.len() == 0 {
                is_noted = self.note_own_end().await;
                let _ = self.redis.end_lease(&self.edge).await;
            }
        };
        let _ = tokio::time::timeout_at(deadline, writing).await;
        if self.ledger.len() > 0 || !is_noted {
            tracing::info!(completions = self.ledger.len(), "the next edge brings the rest of the usage to Postgres");
        }
        // Otherwise the journal is left to its adopter, which releases the reservations that are not in it.
        if is_noted {
            self.ledger.journal.close();
        }
    }
}
