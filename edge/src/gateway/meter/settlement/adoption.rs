//! The journals of dead edges.

use std::io;

use live::RedisError;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::{MeterTasks, REDIS_PAUSE};
use crate::{
    gateway::meter::{
        journal::{self, Completions},
        ledger::AdoptedJournal,
        orphans::{self, Unasked},
    },
    limits,
    spool::Abandoned,
};

impl MeterTasks {
    /// Takes over the journals that dead edges left in the folder.
    pub(super) async fn adopt_journals(&self) {
        let mut beat = interval(limits::ADOPT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_failing = false;
        loop {
            beat.tick().await;
            if let Err(error) = journal::name(&self.ledger.journal, &self.db).await {
                tracing::debug!(%error, "the database's name cannot be read");
                continue;
            }
            self.compare_adopted().await;
            self.note_settled_edges().await;
            while self.ledger.len() < limits::UNSETTLED / 2 {
                let ledger = self.ledger.clone();
                let adopted = tokio::task::spawn_blocking(move || {
                    let Some(abandoned) = ledger.journal.take_over(Completions::apply)? else { return Ok(None) };
                    abandoned.contents.iter().for_each(|completion| ledger.adopt(completion));
                    ledger.journal.sync();
                    Ok::<_, io::Error>(Some(abandoned))
                });
                let adopted = adopted.await;
                let was_failing = std::mem::replace(&mut is_failing, matches!(adopted, Ok(Err(_))));
                match adopted {
                    Ok(Ok(Some(abandoned))) => self.finish_adoption(abandoned).await,
                    Ok(Ok(None)) | Err(_) => break,
                    Ok(Err(error)) => {
                        if !was_failing {
                            tracing::warn!(%error, "the journals of other edges cannot be read (edge.spool)");
                        }
                        break;
                    }
                }
            }
        }
    }

    /// Gives back what a dead edge reserved beyond what its journal has, and deletes that. Once what is in it is settled, the edge is.
    async fn finish_adoption(&self, abandoned: Abandoned<Completions>) {
        let (completions, estimated) = (abandoned.contents.len(), abandoned.contents.estimated());
        if completions > 0 {
            tracing::warn!(completions, estimated, "settling completions of an edge that died");
        }
        let mut edges = abandoned.contents.adopted().clone();
        let mut uncompared = None;
        if abandoned.is_complete {
            let journal = AdoptedJournal::of(abandoned.owner.clone(), &abandoned.contents);
            let releasing = async {
                loop {
                    match self.release_unasked(&journal).await {
                        Ok(is_whole) => return is_whole,
                        Err(error) => tracing::debug!(%error, "what a dead edge reserved cannot be released"),
                    }
                    sleep(REDIS_PAUSE).await;
                }
            };
            let is_whole = timeout(limits::UNASKED_WAIT, releasing).await.ok();
            if is_whole.unwrap_or(true) {
                edges.insert(abandoned.owner.clone());
            }
            // Without Redis nobody can say what is in it. That is asked again before the edge counts as settled.
            uncompared = is_whole.is_none().then_some(journal);
        }
        let ledger = self.ledger.clone();
        let delete = move || {
            ledger.note_adopted(edges, &abandoned.contents, uncompared);
            ledger.journal.sync();
            abandoned.delete();
        };
        let _ = tokio::task::spawn_blocking(delete).await;
    }

    /// Gives back what dead edges reserved beyond what was in their journals, if Redis was away when those were taken over.
    pub(super) async fn compare_adopted(&self) {
        for journal in self.ledger.uncompared_journals() {
            match self.release_unasked(&journal).await {
                Ok(true) => {}
                // Admin has settled it, or will.
                Ok(false) => self.ledger.forget_adopted(std::slice::from_ref(&journal.edge)),
                Err(error) => {
                    tracing::debug!(%error, "what a dead edge reserved cannot be released");
                    return;
                }
            }
            self.ledger.mark_compared(&journal);
        }
    }

    /// Gives back what a dead edge reserved in Redis and did not come to ask a provider for, and has withdrawn what was settled of
    /// that. Returns false if the edge's journal is known to have gaps.
    async fn release_unasked(&self, journal: &AdoptedJournal) -> Result<bool, RedisError> {
        let found = orphans::release_unasked(&self.redis, &journal.edge, |id| journal.contains(id)).await?;
        let Some(Unasked { released, settled }) = found else { return Ok(false) };
        let withdrawn = settled.len();
        if released + withdrawn > 0 {
            tracing::info!(released, withdrawn, "took back what a dead edge had not asked a provider for");
        }
        let ledger = self.ledger.clone();
        let withdraw = move || settled.iter().for_each(|row| ledger.withdraw(row));
        let _ = tokio::task::spawn_blocking(withdraw).await;
        Ok(true)
    }
}
