//! This edge's position in the order of changes, and the decision about each change that it receives or looks up.
//!
//! The next change in our epoch is applied. For anything else (a gap, another epoch, no epoch), [`ChangeOutcome::Unclear`]
//! makes the caller query Postgres. Postgres may itself be in another epoch than we are: after a restart that lost
//! nothing, or after the promotion of a replica that lacks changes applied here. The last applied change distinguishes
//! the two: it is still there with its nonce, or it is not. Until that is known, the position stays in the former
//! epoch, in which admin does not count it.
//!
//! This module does no I/O. [`super::follow`] receives and queries.

use std::{collections::VecDeque, sync::Arc};

use db::edges::{lost_changes::LostChanges, route_changes::FoundChanges};
use domain::{ChangePosition, RouteChange};

use super::ChangeMarks;

/// The changes applied so far, up to a position.
pub(super) struct ChangeProgress {
    marks: Arc<ChangeMarks>,
    reached: Option<LastApplied>,
    /// The most recently applied changes, oldest first: if the database loses them, they are known only here.
    recent: VecDeque<RouteChange>,
    /// The loss found by the last look; see [`Self::take_loss`].
    loss: Option<ChangeLoss>,
}

/// Changes applied here, some of which the database lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangeLoss {
    pub(super) reached: ChangePosition,
    /// The newest position of the database that lacks some.
    pub(super) newest: ChangePosition,
    recent: Vec<RouteChange>,
}

impl ChangeLoss {
    /// Returns the number of the first change remembered here, from which the database has to be queried.
    pub(super) fn first_known(&self) -> Option<i64> {
        self.recent.first().map(|change| change.seq)
    }

    /// Determines which changes are lost, given what the database has from [`Self::first_known`] on.
    pub(super) fn lost_changes(&self, found: &[RouteChange]) -> LostChanges {
        let oldest_found = found.first().map(|change| change.seq);
        let is_lost = |change: &&RouteChange| match found.iter().find(|found| found.seq == change.seq) {
            Some(found) => change.nonce.is_some() && change.nonce != found.nonce,
            // An older change was pruned.
            None => oldest_found.is_none_or(|oldest| change.seq > oldest),
        };
        let lost: Vec<&RouteChange> = self.recent.iter().filter(is_lost).collect();
        let last_seq = self.reached.seq;
        // Only the numbers of forgotten changes are known.
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

#[derive(Debug, Clone, PartialEq, Eq)]
struct LastApplied {
    position: ChangePosition,
    /// Its nonce; `None` while only its `seq` is known.
    nonce: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeOutcome {
    /// It was the next one, and is now applied.
    Applied,
    /// It was already applied.
    Known,
    /// Postgres has to be queried.
    Unclear,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookOutcome {
    /// There was no new change.
    Current,
    /// New changes were applied.
    CaughtUp,
    /// This was the first look, or everything was discarded because applied changes are lost.
    Anew,
}

impl ChangeProgress {
    pub(super) fn new(marks: Arc<ChangeMarks>) -> Self {
        Self { marks, reached: None, recent: VecDeque::new(), loss: None }
    }

    /// Returns the position up to which everything is applied, which may be acknowledged.
    pub(super) fn position(&self) -> Option<&ChangePosition> {
        self.reached.as_ref().map(|reached| &reached.position)
    }

    /// Returns the `seq` from which Postgres is queried: that of the last change, to compare its nonce.
    pub(super) fn query_start(&self) -> Option<i64> {
        self.position().map(|position| position.seq)
    }

    pub(super) fn is_same_epoch(&self, change: &RouteChange) -> bool {
        self.position().is_some_and(|position| change.epoch.as_ref() == Some(&position.epoch))
    }

    /// Applies a change if it is the next one.
    pub(super) fn receive(&mut self, change: &RouteChange) -> ChangeOutcome {
        let Some(reached) = self.reached.as_ref().filter(|_| self.is_same_epoch(change)) else {
            return ChangeOutcome::Unclear;
        };
        let seq = reached.position.seq;
        if change.seq < seq || (change.seq == seq && change.nonce == reached.nonce) {
            return ChangeOutcome::Known;
        }
        if change.seq != seq + 1 {
            return ChangeOutcome::Unclear;
        }
        let position = ChangePosition { epoch: reached.position.epoch.clone(), seq: change.seq };
        self.apply(change);
        self.reach(position, change.nonce);
        ChangeOutcome::Applied
    }

    /// Invalidates everything older than a received change, because the changes missed before it cannot be read. Only
    /// for our epoch, or a program that does not know epochs.
    pub(super) fn skip_to(&mut self, change: &RouteChange) {
        let Some(position) = self.position().filter(|position| position.seq < change.seq) else { return };
        let position = ChangePosition { seq: change.seq, ..position.clone() };
        self.marks.forget_before(change.seq);
        self.reach(position, change.nonce);
    }

    /// Applies changes that Postgres returned for a query from [`Self::query_start`] on.
    pub(super) fn apply_found(&mut self, found: &FoundChanges) -> LookOutcome {
        let FoundChanges { newest, changes } = found;
        let nonce_of = |seq| changes.iter().find(|change| change.seq == seq).and_then(|change| change.nonce);
        let newest_nonce = nonce_of(newest.seq);
        let Some(LastApplied { position, nonce }) = self.reached.clone() else {
            self.marks.begin(newest.epoch.clone());
            self.marks.forget_before(newest.seq);
            self.reach(newest.clone(), newest_nonce);
            return LookOutcome::Anew;
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
            // Before the first change nothing could be lost, and hardly anything is cached.
            if position.seq > 0 {
                tracing::warn!(
                    reached = position.seq,
                    newest = newest.seq,
                    epoch = newest.epoch.as_str(),
                    "the database may lack changes that are applied here (a copy or a backup took its place); forgetting everything"
                );
                let recent = std::mem::take(&mut self.recent).into();
                self.loss = Some(ChangeLoss { reached: position, newest: newest.clone(), recent });
            }
            self.recent.clear();
            self.marks.start_over(newest.epoch.clone());
            self.reach(newest.clone(), newest_nonce);
            return LookOutcome::Anew;
        }
        if is_new_epoch {
            tracing::info!(epoch = newest.epoch.as_str(), "the database began another epoch, and nothing is lost");
        }
        if newest.seq == position.seq {
            self.reach(newest.clone(), nonce.or(found_nonce));
            return LookOutcome::Current;
        }
        let mut missed = changes.iter().filter(|change| change.seq > position.seq).peekable();
        // Old changes are pruned in time, and the number read is bounded: the subjects of the others are unknown.
        let is_whole = missed.peek().is_some_and(|first| first.seq == position.seq + 1)
            && changes.last().is_some_and(|last| last.seq == newest.seq);
        if !is_whole {
            self.marks.forget_before(newest.seq);
        }
        for change in missed {
            self.apply(change);
        }
        self.reach(newest.clone(), newest_nonce);
        LookOutcome::CaughtUp
    }

    pub(super) fn take_loss(&mut self) -> Option<ChangeLoss> {
        self.loss.take()
    }

    fn apply(&mut self, change: &RouteChange) {
        self.marks.apply(change);
        if self.recent.len() == limits::RECENT_CHANGES {
            self.recent.pop_front();
        }
        self.recent.push_back(change.clone());
    }

    /// Returns the maximum number of changes that a look reads: the last applied one, and the maximum of missed ones.
    pub(super) const fn most_changes() -> i64 {
        limits::MISSED_CHANGES + 1
    }

    /// Call only after everything up to `position` is applied.
    fn reach(&mut self, position: ChangePosition, nonce: Option<i64>) {
        self.marks.set_applied(position.seq);
        self.reached = Some(LastApplied { position, nonce });
    }
}

#[cfg(test)]
mod tests;
