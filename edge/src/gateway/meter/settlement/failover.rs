//! A copy that took Postgres's place: it may lack what Postgres had already confirmed, and gets it again.
//!
//! The journal keeps what it has settled for a while. Each row is recorded once, by its id, so whatever the copy does have is
//! not counted twice; and no row is left out because it is not known which ones are missing. What admin has settled for an edge
//! that is gone with its journal is in none.

use std::{collections::VecDeque, io, path::PathBuf};

use db::upkeep::database;
use tokio::time::{Instant, timeout};

use super::{MeterTasks, Unconfirmed};
use crate::{
    gateway::meter::{
        journal::{AbandonedCompletion, Completions},
        ledger::Ledger,
    },
    limits,
    spool::Abandoned,
};

/// How far an edge has come with writing again what Postgres may have lost.
#[derive(Default)]
pub(super) struct Replay {
    /// The time of the last look.
    looked: Option<Instant>,
    /// The history of Postgres that was found then.
    history: Option<String>,
    /// Segments of this edge's own journal that are still to be gone through.
    segments: VecDeque<PathBuf>,
    /// Segments that are entered, and that have what this edge's own journal did not take, until that is settled.
    unwritten: Vec<Abandoned<Completions>>,
    /// Whether this role is known not to be told the history.
    is_denied: bool,
    /// Whether the journals could not be read at the last look.
    is_failing: bool,
}

impl MeterTasks {
    /// Looks, now and then, whether a copy has taken Postgres's place. If so, what Postgres may have lost is entered into the
    /// ledger again, as far as there is room; the rest follows at the next looks.
    pub(super) async fn replay_lost(&self, replay: &mut Replay, unconfirmed: &mut Vec<Unconfirmed>) {
        if replay.looked.is_some_and(|at| at.elapsed() < limits::FAILOVER_LOOK) {
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
            // Their totals may be of rows that are lost.
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
            // What cannot be read is not to stay for ever, nor what is behind it.
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
            // It has panicked; the next look begins anew.
            Err(_) => replay.history = None,
        }
    }

    /// The present history of Postgres; nothing while that is away, or only follows another, or does not tell.
    async fn find_history(&self, replay: &mut Replay) -> Option<String> {
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

/// Enters what may be missing in `history`: first from `segments`, those of this edge that are not kept ones yet, each of which
/// is taken out then. Others that cannot be deleted yet are added to `unwritten`. Blocks.
fn enter_lost(
    ledger: &Ledger,
    history: &str,
    segments: &mut VecDeque<PathBuf>,
    unwritten: &mut Vec<Abandoned<Completions>>,
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
        match journal.read_own(&path, Completions::apply) {
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
    // Not before: a segment that was put aside meanwhile is found by the name of the former history.
    journal.set_history(history);
    for path in journal.lost_segments()? {
        if !has_room() {
            break;
        }
        match journal.take_over_lost(path, Completions::apply) {
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

/// Deletes a segment that is entered; returns it if this edge's own journal does not have all of it, and that is not settled. Blocks.
fn delete_if_safe(ledger: &Ledger, lost: Abandoned<Completions>) -> Option<Abandoned<Completions>> {
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
