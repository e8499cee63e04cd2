//! Edges that have nothing left to settle. Postgres has to know them, this one at its end included: what a Redis with an old memory
//! brings back of them is charged to nobody then.

use db::gateway::settled_edges;
use tokio::time::timeout;

use super::MeterTasks;
use crate::{limits, metrics::postgres_failed};

impl MeterTasks {
    /// Has Postgres know the dead edges whose journals were taken over and are settled.
    pub(super) async fn note_settled_edges(&self) {
        let mut settled = Vec::new();
        for edge in self.ledger.settled_edges(limits::REDIS_BATCH) {
            match self.redis.has_gaps(&edge).await {
                Ok(false) => settled.push(edge),
                // It may have asked a provider for what no journal has. Admin has settled that, or will.
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

    /// Has Postgres know, at the end of this edge, that it is settled. Its ledger must be empty. Returns false if it is not any
    /// more, or Postgres does not take it; an edge that has admitted nothing needs no row.
    pub(super) async fn note_own_end(&self) -> bool {
        self.compare_adopted().await;
        self.note_settled_edges().await;
        self.ledger.len() == 0
            && (self.ledger.ended() == 0 || self.write_settled(std::slice::from_ref(&self.edge)).await)
    }

    async fn write_settled(&self, edges: &[String]) -> bool {
        let Some(now) = self.clock.now() else { return false };
        let written = timeout(limits::USAGE_WAIT, settled_edges::note(&self.db, edges, now)).await;
        let written = written.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        if let Err(error) = &written {
            tracing::debug!(%error, "settled edges cannot be written to Postgres");
            postgres_failed("settled_edges", error);
        }
        written.is_ok()
    }
}
