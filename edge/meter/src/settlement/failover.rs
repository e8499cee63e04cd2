//! Handles a failover to a copy of Postgres: the copy may lack rows that were confirmed before, which are written
//! again.
//!
//! The journal keeps what it has settled for a while. Each row is recorded once, by its id, so rows that the copy has
//! are not counted twice, and all are written because it is unknown which are missing. Completions that admin settled
//! for an edge whose journal is gone are in no journal.

use std::{collections::VecDeque, io, path::PathBuf};

use db::upkeep::database;
use spool::AbandonedSegments;
use tokio::time::{Instant, timeout};

use super::{MeterTasks, UnconfirmedBatch};
use crate::{
    journal::{AbandonedCompletion, JournaledCompletions},
    ledger::CompletionLedger,
};

/// The progress of an edge in rewriting what Postgres may have lost.
#[derive(Default)]
pub(super) struct FailoverReplay {
    looked: Option<Instant>,
    history: Option<String>,
    /// Segments of this edge's own journal that are still to be read.
    segments: VecDeque<PathBuf>,
    /// Entered segments with completions that this edge's own journal did not take, until those are settled.
    unwritten: Vec<AbandonedSegments<JournaledCompletions>>,
    /// Whether this role is known to lack permission to read the history.
    is_denied: bool,
    is_failing: bool,
}

impl MeterTasks {
    /// Checks from time to time whether a copy has taken Postgres's place. If so, what Postgres may have lost is
    /// entered into the ledger again as far as there is room; the rest follows at the next checks.
    pub(super) async fn replay_lost(&self, replay: &mut FailoverReplay, unconfirmed: &mut Vec<UnconfirmedBatch>) {
        if replay.looked.is_some_and(|at| at.elapsed() < limits::FAILOVER_CHECK_EVERY) {
            return;
        }
        let history = self.find_history(replay).await;
        replay.looked = Some(Instant::now());
        let mut is_other = false;
        if let Some(history) = &history
            && replay.history.as_ref() != Some(history)
        {
            if replay.history.is_some() {
                tracing::warn!(history, "a copy has taken Postgres's place; usage that it may lack is written again");
            }
            // Their totals may include rows that are lost.
            unconfirmed.clear();
            self.ledger.requeue_written();
            is_other = true;
            replay.history = Some(history.clone());
        }
        let (ledger, mut segments) = (self.ledger.clone(), std::mem::take(&mut replay.segments));
        let mut unwritten = std::mem::take(&mut replay.unwritten);
        let entered = tokio::task::spawn_blocking(move || {
            if is_other {
                segments = ledger.journal.own_segments().into();
            }
            unwritten = unwritten.into_iter().filter_map(|lost| delete_if_safe(&ledger, lost)).collect();
            let entered =
                history.map_or(Ok(()), |history| enter_lost(&ledger, &history, &mut segments, &mut unwritten));
            // Pruned even after an error, so that unreadable segments and those behind them do not stay forever.
            (segments, unwritten, entered.and(ledger.journal.prune_kept()))
        });
        match entered.await {
            Ok((left, unwritten, outcome)) => {
                (replay.segments, replay.unwritten) = (left, unwritten);
                let was_failing = std::mem::replace(&mut replay.is_failing, outcome.is_err());
                if let Err(error) = outcome
                    && !was_failing
                {
                    tracing::warn!(%error, "the journals that are kept cannot be read (edge.spool)");
                }
            }
            // The task has panicked; the next check starts over.
            Err(_) => replay.history = None,
        }
    }

    /// Returns the current history of Postgres, or `None` if it is unavailable, a replica, or does not reveal it.
    async fn find_history(&self, replay: &mut FailoverReplay) -> Option<String> {
        let found = timeout(limits::SPENT_WAIT, database::history(&self.db)).await;
        match found.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Ok(history) => history,
            Err(error) => {
                tracing::debug!(%error, "the history of Postgres cannot be read");
                if database::is_denied(&error) && !std::mem::replace(&mut replay.is_denied, true) {
                    tracing::warn!(%error, "Postgres does not tell when a copy takes its place; usage that it lacks is lost then");
                }
                None
            }
        }
    }
}

/// Enters what may be missing in `history`, starting with `segments`: those of this edge that are not yet set aside,
/// which leave the list once read. Other segments that cannot be deleted yet go to `unwritten`. Blocks.
fn enter_lost(
    ledger: &CompletionLedger,
    history: &str,
    segments: &mut VecDeque<PathBuf>,
    unwritten: &mut Vec<AbandonedSegments<JournaledCompletions>>,
) -> io::Result<()> {
    let has_room = || ledger.len() < limits::UNSETTLED / 2;
    let count = |completions: usize| {
        metrics::counter!("svc_gateway_replayed_total").increment(completions as u64);
    };
    let journal = &ledger.journal;
    let (mut unread, mut first_error) = (VecDeque::new(), None);
    while has_room()
        && let Some(path) = segments.pop_front()
    {
        match journal.read_own(&path, JournaledCompletions::apply) {
            Ok(Some(completions)) => count(ledger.readopt(&completions)),
            Ok(None) => {}
            Err(error) => {
                first_error.get_or_insert(error);
                unread.push_back(path);
            }
        }
    }
    segments.append(&mut unread);
    if !segments.is_empty() {
        return first_error.map_or(Ok(()), Err);
    }
    // Set only now: segments set aside meanwhile are found by the name of the former history.
    journal.set_history(history);
    for path in journal.lost_segments()? {
        if !has_room() {
            break;
        }
        match journal.take_over_lost(path, JournaledCompletions::apply) {
            Ok(Some(lost)) => {
                count(ledger.readopt(&lost.contents));
                unwritten.extend(delete_if_safe(ledger, lost));
            }
            Ok(None) => {}
            Err(error) => _ = first_error.get_or_insert(error),
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// Deletes an entered segment, or returns it if it has unsettled completions that our journal lacks. Blocks.
fn delete_if_safe(
    ledger: &CompletionLedger,
    lost: AbandonedSegments<JournaledCompletions>,
) -> Option<AbandonedSegments<JournaledCompletions>> {
    let is_needed = |of: &AbandonedCompletion| of.has_ended && !ledger.is_safe(&of.row.id);
    if lost.contents.iter().any(is_needed) {
        return Some(lost);
    }
    ledger.journal.sync();
    lost.delete();
    None
}

#[cfg(test)]
mod tests;
