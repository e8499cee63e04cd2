//! The journals of dead edges.

use std::{collections::BTreeSet, io, sync::Arc};

use domain::CompletionId;
use live::RedisError;
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{MeterTasks, REDIS_PAUSE};
use crate::{
    gateway::meter::{
        journal::{self, AbandonedCompletion, Completions, JournalIndex},
        ledger::{AdoptedJournal, Ledger},
        orphans::{self, Unasked},
    },
    limits, metrics,
    spool::Abandoned,
};

/// The take-over of journals, one at a time.
#[derive(Default)]
struct Adoptions {
    /// The journal of which there is more than the ledger had room for.
    current: Option<Adopting>,
    /// Those that are entered, and that have what our journal did not take.
    unwritten: Vec<Adopting>,
    /// Whether a journal could not be read at the last look.
    is_failing: bool,
}

/// A dead edge's journal on its way into the ledger. Of its completions the ids are in memory, and the rows of one segment.
///
/// It is on disk, and locked, until all of it is entered, and in our journal or settled: the next edge begins with it anew if this
/// one dies.
struct Adopting {
    abandoned: Abandoned<()>,
    journal: Arc<AdoptedJournal>,
    /// The number of segments that were read.
    read: usize,
    /// The completions of the segment that was read last which are still to be entered.
    left: Box<dyn Iterator<Item = AbandonedCompletion> + Send>,
    /// Its completions that our journal did not take: the disk is full, or too slow.
    unwritten: Vec<CompletionId>,
    /// The dead edges that are settled when it is.
    edges: BTreeSet<String>,
    /// Whether Redis was asked what the edge reserved beyond it.
    is_asked: bool,
    /// Whether there is nothing left to ask Redis.
    is_compared: bool,
}

impl Adopting {
    /// Takes over the journal of a dead edge, if there is one. Blocks.
    fn begin(ledger: &Ledger) -> io::Result<Option<Self>> {
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

    /// Enters its completions as far as there is room. Returns whether all of them are entered. Blocks.
    fn enter(&mut self, ledger: &Ledger) -> io::Result<bool> {
        while has_room(ledger) {
            if let Some(completion) = self.left.next() {
                if let Some(completion) = self.journal.index.complete(completion)
                    && !ledger.adopt(&completion)
                {
                    self.unwritten.push(completion.row.id);
                }
            } else {
                let segment = ledger.journal.read_one(&self.abandoned, self.read, Completions::apply)?;
                let Some(completions) = segment else { return Ok(true) };
                self.left = Box::new(completions.into_values());
                self.read += 1;
            }
        }
        Ok(false)
    }

    /// Notes that it is entered, and deletes it. Once what is in it is settled, the edge is. Returns it if there is still something in
    /// it that our journal does not have, and that is not settled. Blocks.
    fn finish(mut self, ledger: &Ledger) -> Option<Self> {
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

/// Whether more of a dead edge may be entered: what is under way at this one, and comes to it, needs room, too.
fn has_room(ledger: &Ledger) -> bool {
    ledger.len() < limits::UNSETTLED / 2
}

impl MeterTasks {
    /// Takes over the journals that dead edges left in the folder.
    pub(super) async fn adopt_journals(&self) {
        let mut beat = interval(limits::ADOPT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut adoptions = Adoptions::default();
        loop {
            beat.tick().await;
            if let Err(error) = journal::name(&self.ledger.journal, &self.db).await {
                tracing::debug!(%error, "the database's name cannot be read");
                metrics::postgres_failed("name", &error);
                continue;
            }
            self.compare_adopted().await;
            self.note_settled_edges().await;
            let entered = std::mem::take(&mut adoptions.unwritten);
            self.finish_all(entered, &mut adoptions).await;
            // Not for longer: what has become of those before is to be seen to meanwhile.
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
    async fn adopt_some(&self, adoptions: &mut Adoptions) -> bool {
        let (ledger, current) = (self.ledger.clone(), adoptions.current.take());
        let entering = spawn_blocking(move || {
            let begun = current.map_or_else(|| Adopting::begin(&ledger), |current| Ok(Some(current)));
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
                    self.compare(&mut adopting).await;
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

    /// Deletes journals that are entered, as far as they are not needed any more.
    async fn finish_all(&self, entered: Vec<Adopting>, adoptions: &mut Adoptions) {
        if !entered.is_empty() {
            let ledger = self.ledger.clone();
            let finish =
                move || entered.into_iter().filter_map(|adopting| adopting.finish(&ledger)).collect::<Vec<_>>();
            adoptions.unwritten.extend(spawn_blocking(finish).await.unwrap_or_default());
        }
    }

    /// Gives back what a dead edge reserved beyond what its journal has.
    async fn compare(&self, adopting: &mut Adopting) {
        adopting.is_asked = true;
        if !adopting.abandoned.is_complete {
            return;
        }
        let releasing = async {
            loop {
                match self.release_unasked(&adopting.journal).await {
                    Ok(unwritten) => return unwritten,
                    Err(error) => tracing::debug!(%error, "what a dead edge reserved cannot be released"),
                }
                sleep(REDIS_PAUSE).await;
            }
        };
        match timeout(limits::UNASKED_WAIT, releasing).await {
            // Its journal is known to have gaps: admin has settled it, or will.
            Ok(None) => return,
            Ok(Some(unwritten)) => adopting.unwritten.extend(unwritten),
            // Without Redis nobody can say what is in it. That is asked again before the edge counts as settled.
            Err(_) => adopting.is_compared = false,
        }
        adopting.edges.insert(adopting.journal.edge.clone());
    }

    /// Gives back what dead edges reserved beyond what was in their journals, if Redis was away when those were taken over.
    pub(super) async fn compare_adopted(&self) {
        for journal in self.ledger.uncompared_journals() {
            match self.release_unasked(&journal).await {
                Ok(Some(_)) => {}
                // Admin has settled it, or will.
                Ok(None) => self.ledger.forget_adopted(std::slice::from_ref(&journal.edge)),
                Err(error) => {
                    tracing::debug!(%error, "what a dead edge reserved cannot be released");
                    return;
                }
            }
            self.ledger.mark_compared(&journal);
        }
    }

    /// Gives back what a dead edge reserved in Redis and did not come to ask a provider for, and has withdrawn what was settled of
    /// that. Returns the completions of which our journal did not take that; `None` if the edge's journal is known to have gaps.
    async fn release_unasked(&self, journal: &AdoptedJournal) -> Result<Option<Vec<CompletionId>>, RedisError> {
        let found = orphans::release_unasked(&self.redis, &journal.edge, |id| journal.index.contains(id)).await?;
        let Some(Unasked { released, settled }) = found else { return Ok(None) };
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
