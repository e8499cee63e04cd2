//! The ledger's reports to Redis: what completions use, and which reservations are released.

use std::time::{Duration, Instant};

use domain::{CompletionId, usage::UsageRow};
use live::budgets::Release;
use tokio::time::timeout;

use super::{Entry, Ledger, State, Status};
use crate::limits;

/// The pause before a release is tried again.
const UNCERTAIN_RELEASE_PAUSE: Duration = Duration::from_secs(2);

/// A report to Redis of what a completion uses.
#[derive(Debug, Clone)]
pub(in crate::gateway::meter) struct Report {
    pub(in crate::gateway::meter) row: UsageRow,
    /// Whether Redis opens the completion if it is not open there.
    pub(in crate::gateway::meter) is_lost: bool,
}

impl Ledger {
    /// The number of completions that have ended since the process began.
    pub(in crate::gateway::meter) fn ended(&self) -> u64 {
        self.state().ended
    }

    /// Records that Redis has been told of the first `ended` completions that ended.
    pub(in crate::gateway::meter) fn mark_reported(&self, ended: u64) {
        self.reported.send_if_modified(|reported| std::mem::replace(reported, ended.max(*reported)) < ended);
    }

    /// The number of completions that have ended and that Redis has been told of.
    pub(in crate::gateway::meter) fn reported(&self) -> u64 {
        *self.reported.borrow()
    }

    /// Waits, up to [`limits::TELL_WAIT`], until Redis has been told of every completion that has ended by now. Returns
    /// whether it had been told of fewer when `reported` was read: what it said since then may rest on what is outdated.
    pub(in crate::gateway::meter) async fn wait_until_reported(&self, reported: u64) -> bool {
        let ended = self.ended();
        if reported >= ended {
            return false;
        }
        self.is_urgent.notify_one();
        let mut reported = self.reported.subscribe();
        let _ = timeout(limits::TELL_WAIT, reported.wait_for(|reported| *reported >= ended)).await;
        true
    }

    /// Queues an admitted completion for a report: Redis has its reservation as a spare.
    pub(in crate::gateway::meter) fn report(&self, id: &CompletionId) {
        if self.state().queue_report(id) {
            self.has_changes.notify_one();
        }
    }

    /// Queues every completion that Redis may have lost for a new report.
    pub(in crate::gateway::meter) fn report_all(&self) {
        let mut state = self.state();
        let State { entries, to_revalue, .. } = &mut *state;
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

    /// Takes the next completions whose usage is to be reported to Redis. Each must come back through
    /// [`finish_revalue`](Self::finish_revalue).
    pub(in crate::gateway::meter) fn take_to_revalue(&self, limit: usize) -> Vec<Report> {
        let mut state = self.state();
        let mut reports = Vec::new();
        for _ in 0..state.to_revalue.len() {
            if reports.len() >= limit {
                break;
            }
            let Some(id) = state.to_revalue.pop_front() else { break };
            match state.entries.get_mut(&id) {
                Some(entry) if !entry.status.is_reported() => entry.is_to_revalue = false,
                // It has changed, or Redis has lost its memory, while this one's report was under way.
                Some(entry) if entry.is_being_revalued => state.to_revalue.push_back(id),
                Some(entry) => {
                    entry.is_to_revalue = false;
                    entry.is_being_revalued = true;
                    let is_lost = std::mem::take(&mut entry.is_lost);
                    reports.push(Report { row: entry.row.clone(), is_lost });
                }
                None => {}
            }
        }
        reports
    }

    /// Records that a report to Redis has succeeded or failed.
    pub(in crate::gateway::meter) fn finish_revalue(&self, report: &Report, has_succeeded: bool) {
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

    /// Takes the next completions whose reservation is to be released in Redis. Each must come back through
    /// [`finish_release`](Self::finish_release).
    pub(in crate::gateway::meter) fn take_to_release(&self, limit: usize) -> Vec<UsageRow> {
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

    /// Records what became of the release of a reservation; `None` if it failed.
    ///
    /// A reservation that is missing may have been settled by others, while this edge was not heard of. Then Postgres has a
    /// row of it, which is to say that nothing was used. A spare is settled by nobody. Postgres is to know of one, too, whose end
    /// the journal has in another segment than its beginning, or could not take: segments are not put aside in their order, and
    /// what is left of the journal when this edge dies would say that it was never released.
    pub(in crate::gateway::meter) fn finish_release(&self, id: &CompletionId, outcome: Option<Release>) {
        let mut state = self.state();
        let Some(entry @ Entry { status: Status::Released(_), .. }) = state.entries.get_mut(id) else { return };
        let is_spare = entry.row.is_spare();
        let [beginning, end] = entry.segments;
        let is_kept_whole = beginning.is_none() || beginning == end;
        match (outcome, entry.status) {
            (Some(Release::Missing), Status::Released(..=1)) if !is_spare => state.write_unused(id),
            (Some(Release::Released), _) if !is_kept_whole => state.write_unused(id),
            (Some(Release::Released), _) | (Some(Release::Missing), Status::Released(..=1)) => {
                if let Some(entry) = state.entries.remove(id) {
                    drop(state);
                    self.journal.release(entry.segments.into_iter().flatten());
                }
            }
            (outcome, Status::Released(left)) => {
                let left = left - u8::from(outcome == Some(Release::Missing));
                entry.status = Status::Released(left);
                state.to_release.push_back((id.clone(), Instant::now() + UNCERTAIN_RELEASE_PAUSE));
            }
            _ => {}
        }
    }
}
