//! Brings traffic to Postgres: collected every other second, journaled, added up, and sent in batches that Postgres
//! adds exactly once.
//!
//! Journaled traffic is safe, so it is sent only every `stats.send_seconds`: a busy site is then one row instead of
//! fifteen. A shutdown, the end of an hour and a half-full queue trigger sending immediately, and the first traffic
//! after a quiet period does not wait. When somebody opens a site's statistics, that site's pending traffic is sent
//! ([`requests`](super::requests)) and the rest stays.
//!
//! A batch has its edge's id and a number. Postgres stores the last number of each edge and ignores batches that are
//! not above it. A batch is therefore sent until Postgres confirms it, and sent again, in the dead edge's name, by the
//! edge that takes over a dead edge's journal ([`adoption`]). Traffic of one site that is sent ahead of its batches is
//! sent under a separate name, of the edge and the site, with the number of the last of these batches. The site is then
//! removed from those batches, also when they are read from the journal.
//!
//! [`adoption`]: super::adoption

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use db::stats::traffic;
use domain::{
    Clock, ProjectId,
    traffic::{HOUR, hour_start},
};
use edge_metrics as metrics;
use live::{Redis, traffic::TrafficRequest};
use sqlx::PgPool;
use tokio::{
    sync::Notify,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    ShardCounts, TrafficCounter,
    batch::{CollectedTraffic, TrafficBatch},
    journal,
    outbox::{BatchOutbox, BatchSum, JournaledRun, MemoryBounds, QueueItem, SiteTraffic},
    requests::TrafficRequests,
};

/// The background task that brings traffic to Postgres; runs once.
pub struct TrafficCollector {
    traffic: &'static TrafficCounter,
    pub(super) db: PgPool,
    edge: String,
    clock: Clock,
    pub(super) outbox: Arc<BatchOutbox>,
    has_more: Notify,
    hold: Duration,
    requests: TrafficRequests,
}

impl TrafficCollector {
    /// Creates the task that sends the counts of `traffic` to `db` in the name of `edge`. It sends every `hold`, and
    /// when requested over `redis`. The journal is in `folder`, which edges may share.
    pub fn new(
        traffic: &'static TrafficCounter,
        db: PgPool,
        redis: Redis,
        edge: String,
        clock: Clock,
        folder: PathBuf,
        hold: Duration,
    ) -> Self {
        let bounds = MemoryBounds { journaled: limits::QUEUED_BYTES, unjournaled: limits::UNJOURNALED_BYTES };
        let outbox = Arc::new(BatchOutbox::new(journal::open(folder, &edge), bounds));
        let requests = TrafficRequests::new(redis, edge.clone());
        Self { traffic, db, edge, clock, outbox, has_more: Notify::new(), hold, requests }
    }

    /// Tells the journal by `is_awake` whether this process ran without interruption; see
    /// [`Spool::set_awake`](spool::Spool::set_awake).
    pub fn set_awake(&self, is_awake: impl Fn() -> bool + Send + Sync + 'static) {
        self.outbox.journal.set_awake(is_awake);
    }

    /// Runs until `stop` is cancelled, then sends what was counted until then. The caller may abort it if that takes
    /// too long: another edge finds the rest in the journal.
    pub async fn run(self, stop: CancellationToken) {
        let collected = CancellationToken::new();
        let collect = async {
            self.collect(&stop).await;
            collected.cancel();
        };
        let beside = async { tokio::join!(self.adopt_journals(), self.follow_countries(), self.requests.listen()) };
        tokio::join!(collect, self.send(&collected), stop.run_until_cancelled(beside));
        let outbox = self.outbox;
        let _ = spawn_blocking(move || outbox.journal.close()).await;
    }

    async fn follow_countries(&self) {
        let traffic = self.traffic;
        loop {
            sleep(limits::COUNTRIES_EVERY).await;
            let _ = spawn_blocking(|| traffic.countries.refresh()).await;
        }
    }

    /// Collects the counts, each within its hour.
    async fn collect(&self, stop: &CancellationToken) {
        let mut is_last = false;
        while !is_last {
            let now = self.clock.now();
            let hour = hour_start(now);
            // Collects at the end of an hour, so that no response counts for the next one.
            let pause = limits::COLLECT_EVERY.min((hour + HOUR).since(now) + Duration::from_millis(1));
            let pausing = async {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.requests.arrived() => {}
                }
            };
            is_last = stop.run_until_cancelled(pausing).await.is_none();
            // Before the counts are taken, so that they include everything counted before these requests.
            self.requests.begin();
            let counts: Vec<ShardCounts> =
                if is_last { self.traffic.take_last().collect() } else { self.traffic.take().collect() };
            let (counted, outbox) = (self.traffic, self.outbox.clone());
            let put = spawn_blocking(move || {
                let CollectedTraffic { traffic, dropped, others } = counted.collection(counts, hour);
                metrics::traffic_collected(dropped, others);
                metrics::traffic_lost("journal", outbox.put(traffic));
            });
            // The task fails only if it panics; then only its own counts are lost.
            let _ = put.await;
            self.requests.collected();
            metrics::traffic_waits(self.outbox.pending());
            self.has_more.notify_one();
        }
    }

    /// Sends what was collected, in the order of the batch numbers, until everything is `collected` and sent.
    async fn send(&self, collected: &CancellationToken) {
        let mut last_sent: Option<Instant> = None;
        loop {
            let is_last = collected.is_cancelled();
            let requested = self.requests.take_collected();
            let is_due = last_sent.is_none_or(|at| at.elapsed() >= self.hold);
            let is_full = self.outbox.bytes() > limits::TRAFFIC_HELD_BYTES;
            if is_last || is_due || is_full || !self.send_ahead(&requested).await {
                while let Some(next) = self.outbox.next() {
                    match next {
                        QueueItem::Run(run) => self.read_back(run).await,
                        QueueItem::Batch(first) => {
                            let BatchSum { batch, segments } = self.outbox.add_up(first);
                            self.deliver(&self.edge, &batch).await;
                            let outbox = self.outbox.clone();
                            let settle = move || segments.into_iter().for_each(|segment| outbox.settle(segment));
                            let _ = spawn_blocking(settle).await;
                        }
                    }
                    last_sent = Some(Instant::now());
                }
            }
            self.requests.reply(requested).await;
            if is_last {
                return;
            }
            let _ = collected.run_until_cancelled(self.has_more.notified()).await;
        }
    }

    /// Sends the requested traffic ahead of its batches. Returns `false` if all batches have to be sent instead.
    async fn send_ahead(&self, requested: &[TrafficRequest]) -> bool {
        if requested.is_empty() {
            return true;
        }
        if requested.iter().any(|request| request.projects().is_empty()) {
            return false;
        }
        let projects: HashSet<ProjectId> = requested.iter().flat_map(TrafficRequest::projects).cloned().collect();
        let Some(found) = self.outbox.site_traffic(&projects) else { return false };
        for SiteTraffic { project, batch } in found {
            self.deliver(&traffic::ahead_edge_name(&self.edge, &project), &batch).await;
            self.outbox.remove_site(&project, batch.number);
        }
        true
    }

    async fn read_back(&self, run: JournaledRun) {
        for _ in 0..limits::TRAFFIC_READ_TRIES {
            let outbox = self.outbox.clone();
            match spawn_blocking(move || outbox.read_back(run)).await {
                Ok(Ok(unreadable)) => {
                    metrics::traffic_lost("journal", unreadable);
                    return;
                }
                Ok(Err(error)) => tracing::warn!(%error, "the journal of traffic cannot be read (edge.spool)"),
                Err(_) => break,
            }
            sleep(limits::TRAFFIC_RETRY).await;
        }
        let outbox = self.outbox.clone();
        let lost = spawn_blocking(move || outbox.give_up(run)).await;
        metrics::traffic_lost("journal", lost.unwrap_or_default());
    }

    /// Sends a batch of `edge` until it is stored or given up.
    pub(super) async fn deliver(&self, edge: &str, batch: &TrafficBatch) {
        while !self.record(edge, batch).await {
            sleep(limits::TRAFFIC_RETRY).await;
        }
    }

    async fn record(&self, edge: &str, batch: &TrafficBatch) -> bool {
        // All of it was sent ahead.
        if batch.traffic.is_empty() {
            return true;
        }
        if batch.is_too_old(self.clock.now()) {
            tracing::error!(answers = batch.answers(), "traffic is too old for Postgres; it is lost");
            metrics::traffic_lost("age", batch.answers());
            return true;
        }
        let recorded = traffic::record(&self.db, edge, batch.number, &batch.traffic);
        match timeout(limits::TRAFFIC_WAIT, recorded).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Ok(_) => true,
            Err(error) if traffic::is_refusal(&error) => {
                let answers = batch.answers();
                tracing::error!(%error, answers, "Postgres refuses traffic; it is lost");
                metrics::traffic_lost("refused", answers);
                true
            }
            Err(error) => {
                metrics::postgres_failed("traffic", &error);
                tracing::debug!(%error, "traffic cannot be written");
                false
            }
        }
    }
}
