//! Sends the journals of dead edges in their names and under their batch numbers, so that Postgres skips what it has.

use std::collections::HashMap;

use db::{stats::traffic, upkeep::database};
use domain::ProjectId;
use edge_metrics as metrics;
use spool::AbandonedSegments;
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{batch::TrafficBatch, collector::TrafficCollector};

impl TrafficCollector {
    pub(super) async fn adopt_journals(&self) {
        let mut beat = interval(limits::TRAFFIC_ADOPT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            beat.tick().await;
            if let Err(error) = self.name_journal().await {
                tracing::debug!(%error, "the database's name cannot be read");
                metrics::postgres_failed("name", &error);
                continue;
            }
            let outbox = self.outbox.clone();
            let taken_over = spawn_blocking(move || outbox.journal.take_over_unread()).await;
            let was_failing = std::mem::replace(&mut is_failing, matches!(taken_over, Ok(Err(_))));
            match taken_over {
                Ok(Ok(Some(abandoned))) => {
                    if self.send_abandoned(abandoned).await {
                        // There may be another dead edge.
                        beat.reset_immediately();
                    }
                }
                Ok(Err(error)) if !was_failing => {
                    tracing::warn!(%error, "the traffic journals of other edges cannot be read (edge.spool)");
                }
                Ok(Ok(None) | Err(_)) | Err(_) => {}
            }
        }
    }

    /// Sets the database that the journal belongs to: the traffic of one is never sent to another.
    async fn name_journal(&self) -> Result<(), sqlx::Error> {
        let journal = &self.outbox.journal;
        if !journal.has_scope() {
            let name = timeout(limits::TRAFFIC_WAIT, database::name(&self.db)).await;
            journal.set_scope(name.unwrap_or(Err(sqlx::Error::PoolTimedOut))?);
        }
        Ok(())
    }

    /// Reads which traffic a dead edge sent ahead of its batches; retries until it succeeds.
    async fn sent_ahead(&self, edge: &str) -> HashMap<ProjectId, i64> {
        loop {
            match timeout(limits::TRAFFIC_WAIT, traffic::list_sent_ahead(&self.db, edge)).await {
                Ok(Ok(sent)) => return sent,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "what an edge has sent ahead cannot be read");
                    metrics::postgres_failed("sent ahead", &error);
                }
                Err(_) => {}
            }
            sleep(limits::TRAFFIC_RETRY).await;
        }
    }

    /// Waits until a dead edge's last statement has ended, because only then is it known what the edge sent ahead.
    /// Edges that share a folder share a Postgres role and so see each other's statements.
    async fn wait_for_last_statement(&self, taken_over: Instant) {
        sleep(limits::TRAFFIC_ARRIVES_WITHIN).await;
        while taken_over.elapsed() < limits::TRAFFIC_ENDED_WITHIN {
            let look = traffic::is_being_recorded(&self.db, taken_over.elapsed());
            match timeout(limits::TRAFFIC_WAIT, look).await {
                Ok(Ok(false)) => return,
                Ok(Ok(true)) | Err(_) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the statements of a dead edge cannot be looked for"),
            }
            sleep(limits::TRAFFIC_ENDED_LOOK).await;
        }
    }

    /// Sends a dead edge's batches by segment. If interrupted, another edge resumes. Returns whether nothing is left.
    async fn send_abandoned(&self, mut abandoned: AbandonedSegments<()>) -> bool {
        tracing::warn!(edge = abandoned.owner, "sending the traffic of an edge that died");
        self.wait_for_last_statement(Instant::now()).await;
        let ahead = self.sent_ahead(&abandoned.owner).await;
        loop {
            let outbox = self.outbox.clone();
            let read = spawn_blocking(move || {
                let push = |batches: &mut Vec<TrafficBatch>, batch| batches.push(batch);
                let batches = outbox.journal.read_first(&abandoned, push);
                (abandoned, batches)
            });
            let Ok((left, batches)) = read.await else { return false };
            abandoned = left;
            match batches {
                Ok(Some(mut batches)) => {
                    for batch in &mut batches {
                        for (project, last) in &ahead {
                            batch.remove_project(project, *last);
                        }
                        self.deliver(&abandoned.owner, batch).await;
                    }
                    metrics::traffic_adopted(batches.len());
                }
                Ok(None) => return true,
                Err(error) => {
                    // Dropping it releases its lock, so that it is tried again.
                    tracing::warn!(%error, "the journal of a dead edge cannot be read (edge.spool)");
                    return false;
                }
            }
            let deleted = spawn_blocking(move || {
                abandoned.delete_first();
                abandoned
            });
            let Ok(left) = deleted.await else { return false };
            abandoned = left;
        }
    }
}
