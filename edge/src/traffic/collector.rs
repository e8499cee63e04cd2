//! The way of traffic to Postgres: collected every other second, written in batches that are added once each.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use db::stats::traffic;
use domain::{
    Clock,
    traffic::{HOUR, HourTraffic, hour_of},
};
use sqlx::PgPool;
use telemetry::metrics::postgres_failed;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Traffic, backlog::Backlog};
use crate::{limits, metrics};

/// The background task that brings traffic to Postgres; runs once.
pub struct Collector {
    traffic: &'static Traffic,
    db: PgPool,
    edge: String,
    clock: Clock,
    backlog: Mutex<Backlog>,
    has_more: Notify,
}

/// A batch that Postgres has not confirmed. It keeps its number until it has: it may have arrived all the same.
struct Batch {
    number: i64,
    traffic: Vec<HourTraffic>,
}

impl Collector {
    /// Brings what `traffic` counts to `db`, in the name of `edge`.
    pub fn new(traffic: &'static Traffic, db: PgPool, edge: String, clock: Clock) -> Self {
        Self { traffic, db, edge, clock, backlog: Mutex::default(), has_more: Notify::new() }
    }

    /// Runs until `stop` is cancelled, then writes what was counted until then. Cut off by whoever runs it if that takes too
    /// long.
    pub async fn run(self, stop: CancellationToken) {
        let collected = CancellationToken::new();
        let collect = async {
            self.collect(&stop).await;
            collected.cancel();
        };
        tokio::join!(collect, self.write(&collected));
    }

    /// Collects what was counted, within the hour in which it was.
    async fn collect(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let now = self.clock.now();
            let hour = hour_of(now);
            // At the end of an hour, so that no answer counts for the next one.
            let pause = limits::COLLECT_EVERY.min((hour + HOUR).since(now) + Duration::from_millis(1));
            let _ = stop.run_until_cancelled(sleep(pause)).await;
            let (mut dropped, mut others) = (0, 0);
            for counts in self.traffic.take() {
                let losses = self.backlog().add(counts, hour);
                dropped += losses.dropped;
                others += losses.others;
            }
            metrics::traffic_collected(self.backlog().len(), dropped, others);
            self.has_more.notify_one();
        }
    }

    /// Writes what was collected, in the order of the batches' numbers, until all is `collected` and written.
    async fn write(&self, collected: &CancellationToken) {
        let (mut number, mut unconfirmed) = (0, None);
        loop {
            let is_last = collected.is_cancelled();
            while let Some(batch) = unconfirmed.take().or_else(|| self.next_batch(&mut number)) {
                if self.record(&batch).await {
                    continue;
                }
                unconfirmed = Some(batch);
                sleep(limits::TRAFFIC_RETRY).await;
            }
            if is_last {
                return;
            }
            let _ = collected.run_until_cancelled(self.has_more.notified()).await;
        }
    }

    fn next_batch(&self, number: &mut i64) -> Option<Batch> {
        let traffic = self.backlog().next_batch();
        (!traffic.is_empty()).then(|| {
            *number += 1;
            Batch { number: *number, traffic }
        })
    }

    /// Writes a batch. Returns whether it is done with.
    async fn record(&self, Batch { number, traffic }: &Batch) -> bool {
        let recorded = traffic::record(&self.db, &self.edge, *number, traffic);
        match timeout(limits::TRAFFIC_WAIT, recorded).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) if traffic::is_refusal(&error) => {
                let answers = traffic.iter().map(|part| part.sums.requests).sum();
                tracing::error!(%error, answers, "Postgres refuses traffic; it is lost");
                metrics::traffic_refused(answers);
                true
            }
            Ok(Err(error)) => {
                postgres_failed("traffic");
                tracing::debug!(%error, "traffic cannot be written");
                false
            }
            Err(_) => {
                postgres_failed("traffic");
                false
            }
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
