//! How far this edge has come in the order of changes, and the judgement of what it hears and finds.
//!
//! A change that is next in our epoch is applied. Whatever does not fit (a gap, another epoch, none) is [`Heard::Unclear`], and
//! Postgres is asked. Postgres may itself be in another epoch than we are: after a restart that lost nothing, or after the promotion
//! of a copy that lacks changes which are applied here. The change that was applied last tells the two apart: it is still there,
//! with its nonce, or it is not. As long as that is not known, the position stays in the former epoch, in which admin does not count it.
//!
//! Nothing here waits. [`super::follow`] hears and asks.

use std::{collections::VecDeque, sync::Arc};

use db::edges::{lost_changes::LostChanges, route_changes::Found};
use domain::{Position, RouteChange};

use super::Marks;
use crate::limits;

/// The changes that were applied, up to one.
pub(super) struct Progress {
    marks: Arc<Marks>,
    reached: Option<Reached>,
    /// The changes that were applied last, oldest first: nobody else knows of them when the database loses them.
    recent: VecDeque<RouteChange>,
    /// What the database lacks since the last look; see [`Self::take_loss`].
    loss: Option<Loss>,
}

/// Changes that were applied here, of which the database lacks some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loss {
    /// The position up to which they were applied.
    pub(super) reached: Position,
    /// The newest position of the database that lacks them.
    pub(super) newest: Position,
    /// The changes that were applied last, oldest first.
    recent: Vec<RouteChange>,
}

impl Loss {
    /// The number of the first change that is known here: from there on the database has to be asked which ones it has.
    pub(super) fn first_known(&self) -> Option<i64> {
        self.recent.first().map(|change| change.seq)
    }

    /// Judges which changes are lost, by what the database has from [`Self::first_known`] on.
    pub(super) fn judge(&self, found: &[RouteChange]) -> LostChanges {
        let oldest_found = found.first().map(|change| change.seq);
        let is_lost = |change: &&RouteChange| match found.iter().find(|found| found.seq == change.seq) {
            Some(found) => change.nonce.is_some() && change.nonce != found.nonce,
            // An older one was pruned.
            None => oldest_found.is_none_or(|oldest| change.seq > oldest),
        };
        let lost: Vec<&RouteChange> = self.recent.iter().filter(is_lost).collect();
        let last_seq = self.reached.seq;
        // Of what is not remembered only the number is known.
        let first_seq = lost.first().map_or_else(|| last_seq.min(self.newest.seq + 1), |change| change.seq);
        let mut subjects: Vec<String> = lost
            .iter()
            .flat_map(|change| std::iter::once(change.subject.as_str()).chain(change.hosts.iter().map(String::as_str)))
            .map(str::to_owned)
            .collect();
        subjects.sort_unstable();
        subjects.dedup();
        LostChanges { newest: self.newest.clone(), first_seq, last_seq, subjects }
    }
}

/// The last change that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reached {
    position: Position,
    /// Its nonce; none while only its `seq` is known.
    nonce: Option<i64>,
}

/// What became of a change that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// It was the next one, and is applied.
    Applied,
    /// It had been applied before.
    Known,
    /// Postgres has to be asked.
    Unclear,
}

/// What became of what Postgres has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// There was nothing new.
    Current,
    /// Something new is applied.
    CaughtUp,
    /// Nothing was known before, or all that was is forgotten, because changes that were applied here are lost.
    Anew,
}

impl Progress {
    /// No progress: nothing is known before the first look.
    pub(super) fn new(marks: Arc<Marks>) -> Self {
        Self { marks, reached: None, recent: VecDeque::new(), loss: None }
    }

    /// The position up to which everything is applied: what may be acknowledged.
    pub(super) fn position(&self) -> Option<&Position> {
        self.reached.as_ref().map(|reached| &reached.position)
    }

    /// The `seq` from which on Postgres is asked: that of the last change, which is to show its nonce.
    pub(super) fn asks_from(&self) -> Option<i64> {
        self.position().map(|position| position.seq)
    }

    /// Whether the change is of our epoch.
    pub(super) fn is_ours(&self, change: &RouteChange) -> bool {
        self.position().is_some_and(|position| change.epoch.as_ref() == Some(&position.epoch))
    }

    /// Applies a change if it is the next one.
    pub(super) fn hear(&mut self, change: &RouteChange) -> Heard {
        let Some(reached) = self.reached.as_ref().filter(|_| self.is_ours(change)) else { return Heard::Unclear };
        let seq = reached.position.seq;
        if change.seq < seq || (change.seq == seq && change.nonce == reached.nonce) {
            return Heard::Known;
        }
        if change.seq != seq + 1 {
            return Heard::Unclear;
        }
        let position = Position { epoch: reached.position.epoch.clone(), seq: change.seq };
        self.apply(change);
        self.reach(position, change.nonce);
        Heard::Applied
    }

    /// Forgets whatever is older than a change that was heard, because what was missed before it cannot be read.
    ///
    /// Only for a change of our epoch, or of a program that knows of none: of another epoch nothing is known.
    pub(super) fn skip_to(&mut self, change: &RouteChange) {
        let Some(position) = self.position().filter(|position| position.seq < change.seq) else { return };
        let position = Position { seq: change.seq, ..position.clone() };
        self.marks.forget_before(change.seq);
        self.reach(position, change.nonce);
    }

    /// Applies what Postgres has, which was asked for changes from [`Self::asks_from`] on.
    pub(super) fn look(&mut self, found: &Found) -> Looked {
        let Found { newest, changes } = found;
        let nonce_of = |seq| changes.iter().find(|change| change.seq == seq).and_then(|change| change.nonce);
        let newest_nonce = nonce_of(newest.seq);
        let Some(Reached { position, nonce }) = self.reached.clone() else {
            self.marks.begin(newest.epoch.clone());
            self.marks.forget_before(newest.seq);
            self.reach(newest.clone(), newest_nonce);
            return Looked::Anew;
        };
        let found_nonce = nonce_of(position.seq);
        let is_same = position.seq == 0 || (nonce.is_some() && nonce == found_nonce);
        let is_other = nonce.is_some() && found_nonce.is_some() && nonce != found_nonce;
        let is_new_epoch = newest.epoch != position.epoch;
        let is_kept = if is_new_epoch {
            is_same && self.marks.adopt(newest, position.seq)
        } else {
            newest.seq >= position.seq && !is_other
        };
        if !is_kept {
            // Before the first change there was nothing to be lost, and next to nothing is remembered.
            if position.seq > 0 {
                tracing::warn!(
                    reached = position.seq,
                    newest = newest.seq,
                    epoch = newest.epoch.as_str(),
                    "the database may lack changes that are applied here (a copy or a backup took its place); forgetting everything"
                );
                let recent = std::mem::take(&mut self.recent).into();
                self.loss = Some(Loss { reached: position, newest: newest.clone(), recent });
            }
            self.recent.clear();
            self.marks.start_over(newest.epoch.clone());
            self.reach(newest.clone(), newest_nonce);
            return Looked::Anew;
        }
        if is_new_epoch {
            tracing::info!(epoch = newest.epoch.as_str(), "the database began another epoch, and nothing is lost");
        }
        if newest.seq == position.seq {
            self.reach(newest.clone(), nonce.or(found_nonce));
            return Looked::Current;
        }
        let mut missed = changes.iter().filter(|change| change.seq > position.seq).peekable();
        // Old changes are pruned in time, and too many are not read: then what they touched is not known.
        let is_whole = missed.peek().is_some_and(|first| first.seq == position.seq + 1)
            && changes.last().is_some_and(|last| last.seq == newest.seq);
        if !is_whole {
            self.marks.forget_before(newest.seq);
        }
        for change in missed {
            self.apply(change);
        }
        self.reach(newest.clone(), newest_nonce);
        Looked::CaughtUp
    }

    /// Takes out what the last look has found lost.
    pub(super) fn take_loss(&mut self) -> Option<Loss> {
        self.loss.take()
    }

    fn apply(&mut self, change: &RouteChange) {
        self.marks.apply(change);
        if self.recent.len() == limits::RECENT_CHANGES {
            self.recent.pop_front();
        }
        self.recent.push_back(change.clone());
    }

    /// The most changes that a look reads: the last one that was applied, and as many missed ones as there may be.
    pub(super) const fn most_changes() -> i64 {
        limits::MISSED_CHANGES + 1
    }

    /// Only after everything up to `position` is applied.
    fn reach(&mut self, position: Position, nonce: Option<i64>) {
        self.marks.set_applied(position.seq);
        self.reached = Some(Reached { position, nonce });
    }
}

#[cfg(test)]
mod tests;
