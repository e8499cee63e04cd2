//! The ledger's reports to Redis: completions' usage, and released reservations.

use std::time::{Duration, Instant};

use domain::{CompletionId, usage::UsageRow};
use live::budgets::ReleaseOutcome;
use tokio::time::timeout;

use super::{CompletionLedger, EntryStatus, LedgerEntry, LedgerState};

/// The pause before a release is retried.
const UNCERTAIN_RELEASE_PAUSE: Duration = Duration::from_secs(2);

/// A report of a completion's usage to Redis.
#[derive(Debug, Clone)]
pub(crate) struct RedisReport {
    pub(crate) row: UsageRow,
    /// Whether Redis must reopen the completion if it is not open there.
    pub(crate) is_lost: bool,
}

impl CompletionLedger {
    pub(crate) fn ended(&self) -> u64 {
        self.state().ended
    }

    /// Records that the first `ended` ended completions were reported to Redis.
    pub(crate) fn mark_reported(&self, ended: u64) {
        self.reported.send_if_modified(|reported| std::mem::replace(reported, ended.max(*reported)) < ended);
    }

    pub(crate) fn reported(&self) -> u64 {
        *self.reported.borrow()
    }

    /// Waits up to [`limits::REPORT_WAIT`] until all completions that have ended by now are reported to Redis. Returns
    /// whether some were unreported when `reported` was read, in which case Redis's later answers may be outdated.
    pub(crate) async fn wait_until_reported(&self, reported: u64) -> bool {
        let ended = self.ended();
        if reported >= ended {
            return false;
        }
        self.is_urgent.notify_one();
        let mut reported = self.reported.subscribe();
        let _ = timeout(limits::REPORT_WAIT, reported.wait_for(|reported| *reported >= ended)).await;
        true
    }

    /// Queues a report of an admitted completion whose reservation is a spare in Redis.
    pub(crate) fn report(&self, id: &CompletionId) {
        if self.state().queue_report(id) {
            self.has_changes.notify_one();
        }
    }

    /// Queues a new report for every completion that Redis may have lost.
    pub(crate) fn report_all(&self) {
        let mut state = self.state();
        let LedgerState { entries, to_revalue, .. } = &mut *state;
        to_revalue.clear();
        for entry in entries.values_mut() {
            entry.is_to_revalue = entry.status.is_reported() && !entry.row.is_unused();
            if entry.is_to_revalue {
                entry.is_lost = true;
                to_revalue.push_back(entry.row.id.clone());
            }
        }
        drop(state);
        self.has_changes.notify_one();
    }

    /// Takes the next completions to report to Redis. Each must be returned through
    /// [`finish_revalue`](Self::finish_revalue).
    pub(crate) fn take_to_revalue(&self, limit: usize) -> Vec<RedisReport> {
        let mut state = self.state();
        let mut reports = Vec::new();
        for _ in 0..state.to_revalue.len() {
            if reports.len() >= limit {
                break;
            }
            let Some(id) = state.to_revalue.pop_front() else { break };
            match state.entries.get_mut(&id) {
                Some(entry) if !entry.status.is_reported() => entry.is_to_revalue = false,
                // The entry has changed, or Redis has lost its memory, while its report is in progress.
                Some(entry) if entry.is_being_revalued => state.to_revalue.push_back(id),
                Some(entry) => {
                    entry.is_to_revalue = false;
                    entry.is_being_revalued = true;
                    let is_lost = std::mem::take(&mut entry.is_lost);
                    reports.push(RedisReport { row: entry.row.clone(), is_lost });
                }
                None => {}
            }
        }
        reports
    }

    pub(crate) fn finish_revalue(&self, report: &RedisReport, has_succeeded: bool) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(&report.row.id) else { return };
        entry.is_being_revalued = false;
        entry.is_lost |= report.is_lost && !has_succeeded;
        // The completion may have ended during the report of its reservation.
        let is_outdated = !has_succeeded || entry.row != report.row;
        if is_outdated {
            state.queue_report(&report.row.id);
        }
    }

    /// Takes the next completions whose reservation must be released in Redis. Each must be returned through
    /// [`finish_release`](Self::finish_release).
    pub(crate) fn take_to_release(&self, limit: usize) -> Vec<UsageRow> {
        let (mut state, now) = (self.state(), Instant::now());
        let mut rows = Vec::new();
        for _ in 0..state.to_release.len() {
            if rows.len() >= limit {
                break;
            }
            let Some((id, due)) = state.to_release.pop_front() else { break };
            match state.entries.get(&id) {
                Some(entry) if due <= now && !entry.is_being_revalued => rows.push(entry.row.clone()),
                Some(_) => state.to_release.push_back((id, due)),
                None => {}
            }
        }
        rows
    }

    /// Records the outcome of releasing a reservation; `None` if it failed.
    ///
    /// Others may have settled a missing reservation while they heard nothing from this edge. Postgres then has its
    /// row, which must be corrected to zero usage; spares are never settled by others. A correction is also needed if
    /// the journal could not take the end, or has it in another segment than the start: segments are not removed in
    /// order, so if this edge dies, the rest of its journal might suggest that the completion was never released.
    pub(crate) fn finish_release(&self, id: &CompletionId, outcome: Option<ReleaseOutcome>) {
        let mut state = self.state();
        let Some(entry @ LedgerEntry { status: EntryStatus::Released(_), .. }) = state.entries.get_mut(id) else {
            return;
        };
        let is_spare = entry.row.is_spare();
        let [beginning, end] = entry.segments;
        let is_kept_whole = beginning.is_none() || beginning == end;
        match (outcome, entry.status) {
            (Some(ReleaseOutcome::Missing), EntryStatus::Released(..=1)) if !is_spare => state.write_unused(id),
            (Some(ReleaseOutcome::Released), _) if !is_kept_whole => state.write_unused(id),
            (Some(ReleaseOutcome::Released), _) | (Some(ReleaseOutcome::Missing), EntryStatus::Released(..=1)) => {
                if let Some(entry) = state.entries.remove(id) {
                    drop(state);
                    self.journal.release(entry.segments.into_iter().flatten());
                }
            }
            (outcome, EntryStatus::Released(left)) => {
                let left = left - u8::from(outcome == Some(ReleaseOutcome::Missing));
                entry.status = EntryStatus::Released(left);
                state.to_release.push_back((id.clone(), Instant::now() + UNCERTAIN_RELEASE_PAUSE));
            }
            _ => {}
        }
    }
}
