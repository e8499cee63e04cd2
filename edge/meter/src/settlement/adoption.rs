//! Adopts the journals of dead edges.

use std::{collections::BTreeSet, io, sync::Arc};

use domain::CompletionId;
use edge_metrics as metrics;
use live::RedisError;
use spool::AbandonedSegments;
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{MeterTasks, REDIS_PAUSE};
use crate::{
    journal::{self, AbandonedCompletion, JournalIndex, JournaledCompletions},
    ledger::{AdoptedJournal, CompletionLedger},
    orphans::{self, UnsentReservations},
};

#[derive(Default)]
struct AdoptionQueue {
    /// The journal that did not fully fit into the ledger.
    current: Option<JournalAdoption>,
    /// Entered journals with completions that our journal did not take.
    unwritten: Vec<JournalAdoption>,
    is_failing: bool,
}

/// A dead edge's journal that is being entered into the ledger. The ids of its completions are in memory, and the rows
/// of one segment. It stays on disk, locked, until everything in it is entered and either in our journal or settled: if
/// this edge dies, the next one starts over.
struct JournalAdoption {
    abandoned: AbandonedSegments<()>,
    journal: Arc<AdoptedJournal>,
    read: usize,
    /// The completions of the last segment read that are not entered yet.
    left: Box<dyn Iterator<Item = AbandonedCompletion> + Send>,
    /// Its completions that our journal did not take, because the disk is full or too slow.
    unwritten: Vec<CompletionId>,
    edges: BTreeSet<String>,
    /// Whether it was compared with the edge's reservations in Redis.
    is_asked: bool,
    is_compared: bool,
}

impl JournalAdoption {
    /// Starts to adopt the journal of a dead edge, if there is one. Blocks.
    fn begin(ledger: &CompletionLedger) -> io::Result<Option<Self>> {
        let Some(abandoned) = ledger.journal.take_over(JournalIndex::apply)? else { return Ok(None) };
        let (index, abandoned) = abandoned.split();
        let (completions, estimated) = (index.len(), index.estimated());
        if completions > 0 {
            tracing::warn!(completions, estimated, "settling completions of an edge that died");
        }
        let edges = index.adopted().clone();
        let journal = Arc::new(AdoptedJournal { edge: abandoned.owner.clone(), index });
        let (left, unwritten) = (Box::new(std::iter::empty()), Vec::new());
        Ok(Some(Self { abandoned, journal, read: 0, left, unwritten, edges, is_asked: false, is_compared: true }))
    }

    /// Enters completions while there is room. Returns whether all are entered. Blocks.
    fn enter(&mut self, ledger: &CompletionLedger) -> io::Result<bool> {
        while has_room(ledger) {
            if let Some(completion) = self.left.next() {
                if let Some(completion) = self.journal.index.complete(completion)
                    && !ledger.adopt(&completion)
                {
                    self.unwritten.push(completion.row.id);
                }
            } else {
                let segment = ledger.journal.read_one(&self.abandoned, self.read, JournaledCompletions::apply)?;
                let Some(completions) = segment else { return Ok(true) };
                self.left = Box::new(completions.into_values());
                self.read += 1;
            }
        }
        Ok(false)
    }

    /// Records that the journal is entered, and deletes it. Its edge is settled once its contents are. Returns the
    /// journal if it has unsettled completions that our journal lacks. Blocks.
    fn finish(mut self, ledger: &CompletionLedger) -> Option<Self> {
        self.unwritten.retain(|id| !ledger.is_safe(id));
        if !self.unwritten.is_empty() {
            return Some(self);
        }
        ledger.note_adopted(self.edges, &self.journal, self.is_compared);
        ledger.journal.sync();
        self.abandoned.delete();
        None
    }
}

/// Returns whether more of a dead edge's journal may be entered. Part of the room is for this edge's own completions.
fn has_room(ledger: &CompletionLedger) -> bool {
    ledger.len() < limits::UNSETTLED / 2
}

impl MeterTasks {
    /// Adopts the journals that dead edges left in the folder.
    pub(super) async fn adopt_journals(&self) {
        let mut beat = interval(limits::ADOPT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut adoptions = AdoptionQueue::default();
        loop {
            beat.tick().await;
            if let Err(error) = journal::set_database_name(&self.ledger.journal, &self.db).await {
                tracing::debug!(%error, "the database's name cannot be read");
                metrics::postgres_failed("name", &error);
                continue;
            }
            self.compare_adopted().await;
            self.note_settled_edges().await;
            let entered = std::mem::take(&mut adoptions.unwritten);
            self.finish_all(entered, &mut adoptions).await;
            // Bounded, so that earlier journals are followed up in between.
            let until = Instant::now() + limits::ADOPT_EVERY;
            while Instant::now() < until {
                if !has_room(&self.ledger) {
                    sleep(limits::USAGE_EVERY).await;
                } else if !self.adopt_some(&mut adoptions).await {
                    break;
                }
            }
        }
    }

    /// Enters as much of a dead edge's journal as there is room for. Returns whether there may be more.
    async fn adopt_some(&self, adoptions: &mut AdoptionQueue) -> bool {
        let (ledger, current) = (self.ledger.clone(), adoptions.current.take());
        let entering = spawn_blocking(move || {
            let begun = current.map_or_else(|| JournalAdoption::begin(&ledger), |current| Ok(Some(current)));
            let Some(mut adopting) = begun? else { return Ok(None) };
            let is_entered = adopting.enter(&ledger)?;
            ledger.journal.sync();
            Ok::<_, io::Error>(Some((adopting, is_entered)))
        });
        let entered = entering.await;
        let was_failing = std::mem::replace(&mut adoptions.is_failing, matches!(entered, Ok(Err(_))));
        match entered {
            Ok(Ok(Some((mut adopting, is_entered)))) => {
                if !adopting.is_asked {
                    self.compare_with_redis(&mut adopting).await;
                }
                if is_entered {
                    self.finish_all(vec![adopting], adoptions).await;
                } else {
                    adoptions.current = Some(adopting);
                }
                true
            }
            Ok(Err(error)) => {
                if !was_failing {
                    tracing::warn!(%error, "the journals of other edges cannot be read (edge.spool)");
                }
                false
            }
            Ok(Ok(None)) | Err(_) => false,
        }
    }

    /// Deletes entered journals that are no longer needed.
    async fn finish_all(&self, entered: Vec<JournalAdoption>, adoptions: &mut AdoptionQueue) {
        if !entered.is_empty() {
            let ledger = self.ledger.clone();
            let finish =
                move || entered.into_iter().filter_map(|adopting| adopting.finish(&ledger)).collect::<Vec<_>>();
            adoptions.unwritten.extend(spawn_blocking(finish).await.unwrap_or_default());
        }
    }

    /// Releases what a dead edge reserved beyond its journal.
    async fn compare_with_redis(&self, adopting: &mut JournalAdoption) {
        adopting.is_asked = true;
        if !adopting.abandoned.is_complete {
            return;
        }
        let releasing = async {
            loop {
                match self.release_unsent(&adopting.journal).await {
                    Ok(unwritten) => return unwritten,
                    Err(error) => tracing::debug!(%error, "what a dead edge reserved cannot be released"),
                }
                sleep(REDIS_PAUSE).await;
            }
        };
        match timeout(limits::UNASKED_WAIT, releasing).await {
            // The journal has gaps, so admin has settled the edge or will.
            Ok(None) => return,
            Ok(Some(unwritten)) => adopting.unwritten.extend(unwritten),
            // Without Redis, its contents are unknown. The comparison is repeated before the edge counts as settled.
            Err(_) => adopting.is_compared = false,
        }
        adopting.edges.insert(adopting.journal.edge.clone());
    }

    /// Releases what dead edges reserved beyond their journals, if Redis was unavailable when those were adopted.
    pub(super) async fn compare_adopted(&self) {
        for journal in self.ledger.uncompared_journals() {
            match self.release_unsent(&journal).await {
                Ok(Some(_)) => {}
                // Admin has settled it or will.
                Ok(None) => self.ledger.forget_adopted(std::slice::from_ref(&journal.edge)),
                Err(error) => {
                    tracing::debug!(%error, "what a dead edge reserved cannot be released");
                    return;
                }
            }
            self.ledger.mark_compared(&journal);
        }
    }

    /// Releases a dead edge's reservations that were never sent to a provider, and withdraws what was settled of them.
    /// Returns the withdrawals that our journal did not take, or `None` if the edge's journal has gaps.
    async fn release_unsent(&self, journal: &AdoptedJournal) -> Result<Option<Vec<CompletionId>>, RedisError> {
        let found = orphans::release_unsent(&self.redis, &journal.edge, |id| journal.index.contains(id)).await?;
        let Some(UnsentReservations { released, settled }) = found else { return Ok(None) };
        let withdrawn = settled.len();
        if released + withdrawn > 0 {
            tracing::info!(released, withdrawn, "took back what a dead edge had not asked a provider for");
        }
        let ledger = self.ledger.clone();
        let withdraw = move || settled.into_iter().filter(|row| !ledger.withdraw(row)).map(|row| row.id).collect();
        Ok(Some(spawn_blocking(withdraw).await.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
