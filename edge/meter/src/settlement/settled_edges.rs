//! Records in Postgres which edges have nothing left to settle, including this one at its end. Reservations that a
//! Redis with outdated data restores for them are then not charged.

use db::gateway::settled_edges;
use edge_metrics::postgres_failed;
use tokio::time::timeout;

use super::MeterTasks;

impl MeterTasks {
    pub(super) async fn note_settled_edges(&self) {
        let mut settled = Vec::new();
        for edge in self.ledger.settled_edges(limits::REDIS_BATCH) {
            match self.redis.has_gaps(&edge).await {
                Ok(false) => settled.push(edge),
                // It may have sent completions to a provider without journaling them. Admin has settled those or will.
                Ok(true) => self.ledger.forget_adopted(&[edge]),
                Err(error) => {
                    tracing::debug!(%error, "it cannot be known whether a dead edge's journal had gaps");
                    return;
                }
            }
        }
        if !settled.is_empty() && self.write_settled(&settled).await {
            self.ledger.forget_adopted(&settled);
        }
    }

    /// Records in Postgres, at the end of this edge, that it is settled. Its ledger must be empty. Returns false if the
    /// ledger is no longer empty or Postgres does not accept the record; an edge that has admitted nothing needs none.
    pub(super) async fn note_own_end(&self) -> bool {
        self.compare_adopted().await;
        self.note_settled_edges().await;
        self.ledger.len() == 0
            && (self.ledger.ended() == 0 || self.write_settled(std::slice::from_ref(&self.edge)).await)
    }

    async fn write_settled(&self, edges: &[String]) -> bool {
        let Some(now) = self.clock.now() else { return false };
        let written = timeout(limits::USAGE_WAIT, settled_edges::record(&self.db, edges, now)).await;
        let written = written.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        if let Err(error) = &written {
            tracing::debug!(%error, "settled edges cannot be written to Postgres");
            postgres_failed("settled_edges", error);
        }
        written.is_ok()
    }
}
