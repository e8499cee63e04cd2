//! The way of traffic to Postgres: collected every other second, journaled, added up, sent in batches that are added once each.
//!
//! What the journal has is safe, so it is sent only every `stats.send_seconds`: a site that is visited all the time then is one row
//! instead of fifteen. A stop, an hour's end and a queue that is half full send all of it immediately. The first traffic after a quiet time
//! does not wait. Whoever opens statistics has what is held of that site sent ([`requests`](super::requests)), and the rest stays.
//!
//! A batch has its edge's id and a number. Postgres keeps the last number of an edge and leaves out what is not above it. So a
//! batch is sent until Postgres has confirmed it, and again by whoever takes over the journal of a dead edge ([`adoption`]), in
//! the dead edge's name. What is sent of one site ahead of its batches has a name of its own, of the edge and the site, and the number
//! of the last of these batches. The site is then taken out of them, also by whoever reads them in the journal.
//!
//! [`adoption`]: super::adoption

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use db::stats::traffic;
use domain::{
    Clock, ProjectId,
    traffic::{HOUR, hour_of},
};
use live::{Redis, traffic::TrafficRequest};
use sqlx::PgPool;
use tokio::{
    sync::Notify,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Counts, Traffic,
    batch::{Batch, Collection},
    journal,
    outbox::{Bounds, Item, Outbox, Run, SiteTraffic, Sum},
    requests::Requests,
};
use crate::{limits, metrics};

/// The background task that brings traffic to Postgres; runs once.
pub struct Collector {
    traffic: &'static Traffic,
    pub(super) db: PgPool,
    edge: String,
    clock: Clock,
    pub(super) outbox: Arc<Outbox>,
    has_more: Notify,
    /// Longest time for which batches are added up.
    hold: Duration,
    requests: Requests,
}

impl Collector {
    /// Brings what `traffic` counts to `db`, in the name of `edge`, every `hold` and when it is asked for over `redis`. The journal is
    /// in `folder`, which edges may share.
    pub fn new(
        traffic: &'static Traffic,
        db: PgPool,
        redis: Redis,
        edge: String,
        clock: Clock,
        folder: PathBuf,
        hold: Duration,
    ) -> Self {
        let bounds = Bounds { journaled: limits::QUEUED_BYTES, unjournaled: limits::UNJOURNALED_BYTES };
        let outbox = Arc::new(Outbox::new(journal::open(folder, &edge), bounds));
        let requests = Requests::new(redis, edge.clone());
        Self { traffic, db, edge, clock, outbox, has_more: Notify::new(), hold, requests }
    }

    /// Has the journal know by `is_awake` whether this process has run all the time; see
    /// [`Spool::set_awake`](crate::spool::Spool::set_awake).
    pub fn set_awake(&self, is_awake: impl Fn() -> bool + Send + Sync + 'static) {
        self.outbox.journal.set_awake(is_awake);
    }

    /// Runs until `stop` is cancelled, then writes what was counted until then. Whoever runs it may cut it off if that takes too
    /// long: another edge finds the rest in the journal.
    pub async fn run(self, stop: CancellationToken) {
        let collected = CancellationToken::new();
        let collect = async {
            self.collect(&stop).await;
            collected.cancel();
        };
        let beside = async { tokio::join!(self.adopt(), self.follow_countries(), self.requests.listen()) };
        tokio::join!(collect, self.send(&collected), stop.run_until_cancelled(beside));
        let outbox = self.outbox;
        let _ = spawn_blocking(move || outbox.journal.close()).await;
    }

    /// Has the countries of addresses read again when their file changes.
    async fn follow_countries(&self) {
        let traffic = self.traffic;
        loop {
            sleep(limits::COUNTRIES_EVERY).await;
            let _ = spawn_blocking(|| traffic.countries.refresh()).await;
        }
    }

    /// Collects what was counted, within the hour in which it was.
    async fn collect(&self, stop: &CancellationToken) {
        let mut is_last = false;
        while !is_last {
            let now = self.clock.now();
            let hour = hour_of(now);
            // At the end of an hour, so that no answer counts for the next one.
            let pause = limits::COLLECT_EVERY.min((hour + HOUR).since(now) + Duration::from_millis(1));
            let pausing = async {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.requests.arrived() => {}
                }
            };
            is_last = stop.run_until_cancelled(pausing).await.is_none();
            // Before the counts are taken: they then have everything that was counted when these were made.
            self.requests.begin();
            let counts: Vec<Counts> =
                if is_last { self.traffic.take_last().collect() } else { self.traffic.take().collect() };
            let (counted, outbox) = (self.traffic, self.outbox.clone());
            let put = spawn_blocking(move || {
                let Collection { traffic, dropped, others } = counted.collection(counts, hour);
                metrics::traffic_collected(dropped, others);
                metrics::traffic_lost("journal", outbox.put(traffic));
            });
            // It ends unless it panics; what it had is lost then, and no more.
            let _ = put.await;
            self.requests.collected();
            metrics::traffic_waits(self.outbox.len());
            self.has_more.notify_one();
        }
    }

    /// Sends what was collected, in the order of the batches' numbers, until all is `collected` and sent.
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
                        Item::Run(run) => self.read_back(run).await,
                        Item::Batch(first) => {
                            let Sum { batch, segments } = self.outbox.add_up(first);
                            self.deliver(&self.edge, &batch).await;
                            let outbox = self.outbox.clone();
                            let settle = move || segments.into_iter().for_each(|segment| outbox.settle(segment));
                            let _ = spawn_blocking(settle).await;
                        }
                    }
                    last_sent = Some(Instant::now());
                }
            }
            self.requests.answer(requested).await;
            if is_last {
                return;
            }
            let _ = collected.run_until_cancelled(self.has_more.notified()).await;
        }
    }

    /// Sends what is asked for ahead of the batches that it is in. Returns false when all batches are to be sent instead.
    async fn send_ahead(&self, requested: &[TrafficRequest]) -> bool {
        if requested.is_empty() {
            return true;
        }
        if requested.iter().any(|request| request.projects().is_empty()) {
            return false;
        }
        let projects: HashSet<ProjectId> = requested.iter().flat_map(TrafficRequest::projects).cloned().collect();
        let Some(found) = self.outbox.ahead(&projects) else { return false };
        for SiteTraffic { project, batch } in found {
            self.deliver(&traffic::sent_ahead_by(&self.edge, &project), &batch).await;
            self.outbox.take_out(&project, batch.number);
        }
        true
    }

    async fn read_back(&self, run: Run) {
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

    /// Sends a batch of `edge` until it is done with.
    pub(super) async fn deliver(&self, edge: &str, batch: &Batch) {
        while !self.record(edge, batch).await {
            sleep(limits::TRAFFIC_RETRY).await;
        }
    }

    /// Sends a batch once. Returns whether it is done with.
    async fn record(&self, edge: &str, batch: &Batch) -> bool {
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
