//! The conditions under which packs are moved on the database's word alone, and what happens when they fail.

use std::time::Duration;

use app::{App, metrics};
use db::upkeep::store_sweep;
use domain::Timestamp;
use mail::notices::{Notice, notify_operator};

/// The greatest permitted difference between the clocks of this machine, of Postgres and of the store.
pub(super) const CLOCKS_APART: Duration = Duration::from_mins(5);
/// The unknown packs that a round of the sweep may move even if it has checked few packs.
const UNKNOWN_AT_LEAST: i64 = 20;
/// A round may move one further unknown pack for each of this many checked ones.
const LOOKED_PER_UNKNOWN: i64 = 100;

/// The reason why the sweep has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepStopReason {
    /// The clocks of this machine, of Postgres and of the store differ.
    Clocks,
    /// The store has packs that were written after this database knew all of them: the database is older than the
    /// store, or another one.
    OlderDatabase,
    /// Too many packs have no record.
    Share,
    /// Another copy of this database rules the store.
    Copy,
}

impl SweepStopReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Clocks, Self::OlderDatabase, Self::Share, Self::Copy];

    /// Returns the stored word, which is also the metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clocks => "clocks",
            Self::OlderDatabase => "older_database",
            Self::Share => "share",
            Self::Copy => "copy",
        }
    }

    /// Returns the reason stored as `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// Describes the problem in one sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Clocks => {
                "The clocks of this machine, of PostgreSQL and of the store differ by more than 5 minutes; set them right."
            }
            Self::OlderDatabase => {
                "The store has packs that are newer than this database: an older dump was restored, or the store belongs to \
                 another database."
            }
            Self::Share => "Too many packs of the store have no record in this database.",
            Self::Copy => {
                "The store is ruled by another copy of this database, of which one was made from the other by a dump; so this one moves and \
                 deletes no pack. Only if the other one is out of use for good, make this one the ruler by `admin store sweep --yes`."
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ClockReadings {
    machine: Timestamp,
    pub(super) postgres: Timestamp,
    pub(super) store: Timestamp,
}

impl ClockReadings {
    pub(super) async fn read(app: &App) -> anyhow::Result<Self> {
        let store = app.store.now().await?;
        let postgres = db::in_time(store_sweep::clock(&app.db)).await?;
        Ok(Self { machine: app.clock.now(), postgres, store })
    }

    pub(super) fn are_in_step(&self) -> bool {
        let all = [self.machine, self.postgres, self.store];
        all.iter().all(|one| all.iter().all(|other| one.since(*other) <= CLOCKS_APART))
    }
}

/// Returns whether `unknown` packs are too many for a round of the sweep that has checked `looked` packs.
pub(super) fn is_over_limit(looked: i64, unknown: i64) -> bool {
    let known = looked - unknown;
    unknown > known || unknown > UNKNOWN_AT_LEAST.max(looked / LOOKED_PER_UNKNOWN)
}

pub(super) fn export_stop_reason(reason: Option<SweepStopReason>) {
    metrics::sweep_stopped(&SweepStopReason::ALL.map(SweepStopReason::as_str), reason.map(SweepStopReason::as_str));
}

/// Records that the sweep has stopped, and notifies the operator the first time.
pub(super) async fn stop(app: &App, reason: SweepStopReason, detail: &str) -> anyhow::Result<()> {
    export_stop_reason(Some(reason));
    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    if !store_sweep::stop(&mut tx, reason.as_str(), now).await? {
        return Ok(());
    }
    let notice = Notice::SweepStopped { reason: reason.sentence().to_owned(), detail: detail.to_owned() };
    let event = format!("sweep_stopped/{}/{}", reason.as_str(), now.unix_millis());
    notify_operator(&mut tx, app.config.mail.operator.as_ref(), &event, &notice, now).await?;
    tx.commit().await?;
    tracing::error!(
        reason = reason.as_str(),
        detail,
        "the sweep of the store has stopped and moves nothing. {} `admin store sweep` shows what it would move.",
        reason.sentence()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_packs_may_be_unknown_and_never_most() {
        assert!(!is_over_limit(0, 0) && !is_over_limit(2, 1) && !is_over_limit(40, 20));
        assert!(is_over_limit(1, 1) && is_over_limit(3, 2) && is_over_limit(1_000, 21));
        assert!(!is_over_limit(10_000, 100) && is_over_limit(10_000, 101));
    }

    #[test]
    fn clocks_agree_within_minutes() {
        let at = |minutes: i64| Timestamp::from_unix_millis(1_795_410_480_000 + minutes * 60_000);
        let agree = |machine, postgres, store| {
            ClockReadings { machine: at(machine), postgres: at(postgres), store: at(store) }.are_in_step()
        };
        assert!(agree(0, 0, 0) && agree(0, 5, 0) && agree(-2, 3, 0));
        assert!(!agree(6, 0, 0) && !agree(0, 6, 0) && !agree(0, 0, 6) && !agree(-3, 3, 0) && !agree(-3 * 1_440, 0, 0));
    }
}
