//! What brings the books to Postgres and keeps Redis true, as long as the edge runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use db::ai_usage;
use domain::{
    Account, Clock, CompletionId, Timestamp,
    usage::{DaySpent, UsageRow},
};
use futures_util::future::join_all;
use live::{
    Redis, RedisError,
    budgets::Open,
    leases::{Epoch, RENEW_EVERY},
};
use sqlx::PgPool;
use telemetry::metrics::postgres_failed;
use time::Date;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::books::Books;
use crate::limits;

/// How long Redis is left alone after it refused something.
const REDIS_PAUSE: Duration = Duration::from_millis(200);

/// The tasks behind a meter; made with it, run once.
pub struct MeterTasks {
    books: Arc<Books>,
    edge: String,
    redis: Redis,
    db: PgPool,
    clock: Clock,
    /// When Redis was last found to have begun anew.
    began_anew: watch::Sender<Option<Timestamp>>,
}

/// Written to Postgres, and not yet known to Redis.
struct Unconfirmed {
    spent: DaySpent,
    ids: Vec<CompletionId>,
}

impl MeterTasks {
    pub(super) fn new(books: Arc<Books>, edge: String, redis: Redis, db: PgPool, clock: Clock) -> Self {
        Self { books, edge, redis, db, clock, began_anew: watch::Sender::new(None) }
    }

    /// Works until `stop`, then brings to Postgres what there is.
    pub async fn run(self, stop: CancellationToken) {
        let work = async { tokio::join!(self.tell(), self.renew(), self.disown(), self.adopt()) };
        let write = self.write(&stop);
        tokio::pin!(work);
        tokio::select! {
            // Never ends by itself.
            _ = &mut work => {}
            () = write => {}
        }
    }

    /// Tells Redis what completions used, so that the next ones find room.
    async fn tell(&self) {
        loop {
            let news = self.books.news.notified();
            let ended = self.books.ended();
            let (rows, back) =
                (self.books.take_to_revalue(limits::REDIS_BATCH), self.books.take_to_release(limits::REDIS_BATCH));
            if rows.is_empty() && back.is_empty() {
                // Releases may become due by time alone.
                self.books.told(ended);
                let _ = timeout(RENEW_EVERY, news).await;
                continue;
            }
            let all = rows.len() < limits::REDIS_BATCH && back.len() < limits::REDIS_BATCH;
            let mut accounts: BTreeMap<&Account, Vec<&UsageRow>> = BTreeMap::new();
            for row in &rows {
                accounts.entry(&row.account).or_default().push(row);
            }
            let revalued = join_all(accounts.into_iter().map(async |(account, rows)| {
                let told = self.redis.revalue(&self.edge, account, &rows).await;
                for row in rows {
                    self.books.put_back(row, told.is_ok());
                }
                told
            }));
            let released = join_all(back.iter().map(async |row| {
                let told = self.redis.release(&row.account, &[&row.id]).await;
                self.books.given_back(&row.id, told.is_ok());
                told
            }));
            let (revalued, released) = tokio::join!(revalued, released);
            if let Some(error) = revalued.into_iter().chain(released).find_map(Result::err) {
                tracing::debug!(%error, "Redis cannot be told what was used");
                sleep(REDIS_PAUSE).await;
            } else if all {
                self.books.told(ended);
                // What ends meanwhile is told in one go: each telling keeps Redis from an admission.
                let _ = timeout(limits::TELL_EVERY, self.books.urgent.notified()).await;
            }
        }
    }

    /// Says that this edge lives, and tells Redis everything again when it has lost its memory.
    async fn renew(&self) {
        let mut known: Option<Epoch> = None;
        let mut beat = interval(RENEW_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            let renewed = self.redis.renew_lease(&self.edge).await;
            crate::metrics::level("svc_gateway_redis_up", usize::from(renewed.is_ok()));
            match renewed {
                Ok(epoch) => {
                    let is_new = known.as_ref().is_none_or(|known| !known.is_same(&epoch));
                    if is_new && let Err(error) = self.redis.load_budgets().await {
                        tracing::debug!(%error, "the scripts cannot be loaded");
                    }
                    if is_new && known.is_some() {
                        tracing::warn!(open = self.books.len(), "Redis began anew; telling it what is under way");
                        self.books.tell_all();
                        self.began_anew.send_replace(Some(self.clock.now()));
                    }
                    known = Some(epoch);
                }
                Err(error) => tracing::debug!(%error, "the lease cannot be renewed"),
            }
            let (open, backlog) = self.books.levels();
            crate::metrics::level("svc_gateway_open", open);
            crate::metrics::level("svc_gateway_journal_backlog", backlog);
        }
    }

    /// A Redis that comes back with what it had saved may have forgotten, with its last moment, what ended in it. Nobody
    /// would tell it again, and the account would lack what those completions had reserved.
    async fn disown(&self) {
        let mut began_anew = self.began_anew.subscribe();
        while began_anew.changed().await.is_ok() {
            // By then every completion admitted before is in the books, or never will be.
            sleep(limits::DISOWN_AFTER).await;
            let Some(before) = *began_anew.borrow_and_update() else { continue };
            while let Err(error) = self.disown_before(before).await {
                tracing::debug!(%error, "Redis cannot be asked what it takes to be under way");
                sleep(REDIS_PAUSE).await;
            }
        }
    }

    async fn disown_before(&self, before: Timestamp) -> Result<(), RedisError> {
        for account in self.redis.accounts_with_open().await? {
            let open = self.redis.open_of(&account).await?;
            let is_unknown =
                |open: &&Open| open.edge == self.edge && open.row.at < before && !self.books.knows(&open.row.id);
            let ids: Vec<&CompletionId> = open.iter().filter(is_unknown).map(|open| &open.row.id).collect();
            for ids in ids.chunks(limits::REDIS_BATCH) {
                self.redis.release(&account, ids).await?;
                tracing::info!(completions = ids.len(), "Redis took for open what had ended");
            }
        }
        Ok(())
    }

    /// Takes over what dead edges left behind in the folder.
    async fn adopt(&self) {
        let mut look = interval(limits::ADOPT_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            while self.books.len() < limits::UNSETTLED / 2 {
                let books = self.books.clone();
                let adopted = tokio::task::spawn_blocking(move || {
                    let Some(legacy) = books.journal.legacy()? else { return Ok(None) };
                    for (row, released) in &legacy.rows {
                        books.take_over(row.clone(), *released);
                    }
                    books.journal.sync();
                    let estimated = legacy.rows.iter().filter(|(row, released)| row.estimated && !released).count();
                    let counts = (legacy.rows.len(), estimated);
                    legacy.remove();
                    Ok::<_, std::io::Error>(Some(counts))
                });
                match adopted.await {
                    Ok(Ok(Some((completions, estimated)))) if completions > 0 => {
                        tracing::warn!(completions, estimated, "settling what an edge that died left behind");
                    }
                    Ok(Ok(Some(_))) => {}
                    Ok(Ok(None)) | Err(_) => break,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the journals of other edges cannot be read (edge.spool)");
                        break;
                    }
                }
            }
        }
    }

    /// Brings to Postgres what has ended, and what the account has used by then to Redis.
    async fn write(&self, stop: &CancellationToken) {
        let mut unconfirmed: Vec<Unconfirmed> = Vec::new();
        let mut failing = false;
        loop {
            let pause = if failing { limits::USAGE_RETRY } else { limits::USAGE_EVERY };
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
            failing = self.write_all(&mut unconfirmed, failing).await;
            self.confirm_all(&mut unconfirmed).await;
        }
        self.finish(&mut unconfirmed).await;
    }

    /// Says whether Postgres refused.
    async fn write_all(&self, unconfirmed: &mut Vec<Unconfirmed>, was_failing: bool) -> bool {
        loop {
            let rows = self.books.take_to_write(limits::USAGE_BATCH);
            if rows.is_empty() {
                return false;
            }
            let written = timeout(limits::USAGE_WAIT, self.record(&rows)).await;
            match written.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
                Ok(spent) => {
                    if was_failing {
                        tracing::info!(rows = rows.len(), "Postgres takes usage again");
                    }
                    metrics::counter!("svc_gateway_settled_total").increment(rows.len() as u64);
                    self.books.written(&rows);
                    unconfirmed.extend(by_account_and_day(spent, &rows));
                }
                Err(error) => {
                    postgres_failed("usage");
                    self.books.not_written(&rows);
                    if !was_failing {
                        tracing::warn!(%error, "Postgres does not take usage; it is kept in the journal and tried again");
                    }
                    let books = self.books.clone();
                    let _ = tokio::task::spawn_blocking(move || books.journal.sync()).await;
                    return true;
                }
            }
        }
    }

    async fn record(&self, rows: &[UsageRow]) -> Result<Vec<DaySpent>, sqlx::Error> {
        let mut tx = self.db.begin().await?;
        let spent = ai_usage::record(&mut tx, rows).await?;
        tx.commit().await?;
        Ok(spent)
    }

    async fn confirm_all(&self, unconfirmed: &mut Vec<Unconfirmed>) {
        for chunk in std::mem::take(unconfirmed).chunks_mut(limits::REDIS_BATCH) {
            let confirmed = join_all(chunk.iter().map(async |batch| {
                if self.books.in_hand(&batch.ids) {
                    return false;
                }
                let ids: Vec<&CompletionId> = batch.ids.iter().collect();
                let told = self.redis.confirm(&batch.spent, &ids).await;
                if let Err(error) = &told {
                    tracing::debug!(%error, "Redis cannot be told what Postgres has");
                }
                told.is_ok()
            }))
            .await;
            for (batch, confirmed) in chunk.iter_mut().zip(confirmed) {
                let batch = Unconfirmed { spent: batch.spent.clone(), ids: std::mem::take(&mut batch.ids) };
                if confirmed { self.books.forget(&batch.ids) } else { unconfirmed.push(batch) }
            }
        }
    }

    /// The last word: everything that has ended, as far as there is time. The rest stays in the journal.
    async fn finish(&self, unconfirmed: &mut Vec<Unconfirmed>) {
        let deadline = Instant::now() + limits::METER_LAST_WORD;
        let last = async {
            self.write_all(unconfirmed, false).await;
            self.confirm_all(unconfirmed).await;
            if self.books.len() == 0 {
                let _ = self.redis.end_lease(&self.edge).await;
            }
        };
        if tokio::time::timeout_at(deadline, last).await.is_err() || self.books.len() > 0 {
            tracing::info!(completions = self.books.len(), "the next edge brings the rest of the usage to Postgres");
        }
        self.books.journal.close();
    }
}

/// Each account's and day's ids, with what it has used now.
fn by_account_and_day(spent: Vec<DaySpent>, rows: &[UsageRow]) -> Vec<Unconfirmed> {
    let mut ids: BTreeMap<(Account, Date), Vec<CompletionId>> = BTreeMap::new();
    for row in rows {
        ids.entry((row.account.clone(), row.day())).or_default().push(row.id.clone());
    }
    let of = |spent: DaySpent| {
        let ids = ids.remove(&(spent.account.clone(), spent.day)).unwrap_or_default();
        Unconfirmed { spent, ids }
    };
    spent.into_iter().map(of).collect()
}
