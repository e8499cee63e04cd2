//! The ledger: every completion that this edge is responsible for, from its admission until Postgres has its row and
//! Redis has Postgres's new totals.
//!
//! Each step of a completion is in the journal before it is in the ledger, but for its admission: the journal has nothing of a
//! completion that no provider was asked for. The queues hold ids of entries and are therefore bounded like the entries; an id whose
//! entry is gone, or is in another state by now, is skipped.

mod adoption;
mod reports;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use ahash::HashMap;
use domain::{
    CompletionId,
    usage::{Certainty, UsageRow},
};
use tokio::sync::{Notify, watch};

use self::adoption::Adoption;
pub(super) use self::{adoption::AdoptedJournal, reports::Report};
use super::{
    ends::Ends,
    journal::{Journal, RecordRef},
};
use crate::{limits, spool::SegmentId};

/// How many times a reservation is released whose admission may still be on its way to Redis: a connection that broke
/// may yet deliver what was sent over it.
const UNCERTAIN_RELEASES: u8 = 2;

/// The ledger of an edge.
pub(super) struct Ledger {
    state: Mutex<State>,
    pub(super) journal: Journal,
    /// Notified when there is something to report to Redis.
    pub(super) has_changes: Notify,
    /// Notified when a report to Redis cannot wait: an admission waits for it, or more was used than was reserved.
    pub(super) is_urgent: Notify,
    /// The number of ended completions that Redis has been told of.
    reported: watch::Sender<u64>,
    /// What a refusal for want of budget may rest on no longer.
    pub(super) ends: Ends,
    /// Whether a provider was asked for a completion that the journal did not take.
    has_gaps: AtomicBool,
    /// Notified when the journal has a gap, of which Redis may not know yet.
    pub(super) has_new_gap: Notify,
}

#[derive(Default)]
struct State {
    entries: HashMap<CompletionId, Entry>,
    /// Completions whose current usage is to be reported to Redis.
    to_revalue: VecDeque<CompletionId>,
    /// Ended completions that are to be written to Postgres.
    to_write: VecDeque<CompletionId>,
    /// Completions whose reservation is to be released in Redis, each not before its instant.
    to_release: VecDeque<(CompletionId, Instant)>,
    /// The number of completions that have ended since the process began.
    ended: u64,
    /// The number of rows that Postgres has taken since the process began.
    taken: u64,
    adoptions: Vec<Adoption>,
}

struct Entry {
    row: UsageRow,
    status: Status,
    /// The journal's segments that hold this completion's records.
    segments: [Option<SegmentId>; 2],
    /// Whether a report of the row to Redis is under way. Until it is over the entry is not written or confirmed: a
    /// report that arrived after the confirmation would bring the reservation back.
    is_being_revalued: bool,
    /// Whether Redis may have lost the completion, so that the next report opens it again.
    is_lost: bool,
    /// Whether it is in the queue of reports to Redis.
    is_to_revalue: bool,
    /// The provider that the journal names, once a provider was asked.
    journaled: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// The completion is admitted, and no provider was asked yet.
    Admitted,
    /// A provider was asked for the completion.
    Open,
    /// The completion used what its row says, and Postgres does not have the row yet.
    Ended,
    /// Postgres has the row.
    Written,
    /// The completion used nothing; its reservation is to be released this many more times.
    Released(u8),
}

impl State {
    /// Queues a completion for a report to Redis. Returns whether it was not queued before.
    fn queue_report(&mut self, id: &CompletionId) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        let is_new = !std::mem::replace(&mut entry.is_to_revalue, true);
        if is_new {
            self.to_revalue.push_back(id.clone());
        }
        is_new
    }

    /// Has Postgres told that a completion used nothing.
    fn write_unused(&mut self, id: &CompletionId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.row.set_unused();
        if entry.segments[0].is_some() {
            entry.row.certainty = Certainty::Failed;
        }
        entry.status = Status::Ended;
        self.to_write.push_back(id.clone());
    }
}

impl Status {
    /// Whether Redis is to know what the completion uses.
    fn is_reported(self) -> bool {
        matches!(self, Self::Admitted | Self::Open | Self::Ended)
    }
}

impl Ledger {
    pub(super) fn new(journal: Journal) -> Self {
        Self {
            state: Mutex::default(),
            journal,
            has_changes: Notify::new(),
            is_urgent: Notify::new(),
            reported: watch::Sender::new(0),
            ends: Ends::new(),
            has_gaps: AtomicBool::new(false),
            has_new_gap: Notify::new(),
        }
    }

    /// The name of this edge.
    pub(super) fn edge(&self) -> &str {
        self.journal.owner()
    }

    /// Whether the ledger and the journal can take one more completion.
    pub(super) fn has_room(&self) -> bool {
        self.len() < limits::UNSETTLED && self.journal.has_room()
    }

    /// The number of completions in the ledger.
    pub(super) fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether a completion is in the ledger.
    pub(super) fn contains(&self, id: &CompletionId) -> bool {
        self.state().entries.contains_key(id)
    }

    /// The number of completions under way, and that of ended ones which Postgres does not have.
    pub(super) fn levels(&self) -> (usize, usize) {
        let state = self.state();
        let count =
            |statuses: &[Status]| state.entries.values().filter(|entry| statuses.contains(&entry.status)).count();
        (count(&[Status::Admitted, Status::Open]), count(&[Status::Ended]))
    }

    /// The number of rows that Postgres has taken so far, while some wait for it.
    pub(super) fn taken_so_far(&self) -> Option<u64> {
        let state = self.state();
        state.entries.values().any(|entry| entry.status == Status::Ended).then_some(state.taken)
    }

    /// Enters an admitted completion, with a row that says what it can use at most.
    pub(super) fn admit(&self, row: UsageRow) {
        let (status, segments) = (Status::Admitted, [None, None]);
        let entry = Entry {
            row,
            status,
            segments,
            is_being_revalued: false,
            is_lost: false,
            is_to_revalue: false,
            journaled: None,
        };
        self.state().entries.insert(entry.row.id.clone(), entry);
    }

    /// Has the journal know that a provider is asked for an admitted completion, or another one for an open completion. Does nothing
    /// for any other.
    pub(super) fn open(&self, id: &CompletionId) {
        let row = match self.state().entries.get(id) {
            Some(entry) if entry.status == Status::Admitted => entry.row.clone(),
            Some(entry) if entry.status == Status::Open && entry.journaled.as_ref() != Some(&entry.row.provider) => {
                entry.row.clone()
            }
            _ => return,
        };
        let segment = self.journal.append(&RecordRef::Open(&row));
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id) else { return };
        let is_first = entry.status == Status::Admitted;
        (entry.status, entry.journaled) = (Status::Open, Some(row.provider));
        // A second record that the journal does not take leaves the first one, which counts as much.
        let former =
            if is_first || segment.is_some() { std::mem::replace(&mut entry.segments[0], segment) } else { None };
        drop(state);
        if is_first && segment.is_none() {
            self.has_gaps.store(true, Ordering::Relaxed);
            self.has_new_gap.notify_one();
        }
        // The second one stands for itself, whatever becomes of the segment of the first.
        self.journal.release(former);
    }

    /// Has the row of a completion say which provider serves it, here and in Redis. The journal learns of it when that one is asked.
    pub(super) fn set_provider(&self, id: &CompletionId, provider: &Arc<str>) {
        {
            let mut state = self.state();
            let Some(entry) = state.entries.get_mut(id) else { return };
            entry.row.provider = provider.clone();
            state.queue_report(id);
        }
        self.has_changes.notify_one();
    }

    /// Whether a provider was asked for a completion that has not ended.
    pub(super) fn is_open(&self, id: &CompletionId) -> bool {
        self.state().entries.get(id).is_some_and(|entry| entry.status == Status::Open)
    }

    /// Whether a provider was asked for some completion that the journal does not have.
    pub(super) fn has_gaps(&self) -> bool {
        self.has_gaps.load(Ordering::Relaxed)
    }

    /// Ends a completion; `update` makes its row say what was used.
    pub(super) fn end(&self, id: &CompletionId, update: impl FnOnce(&mut UsageRow)) {
        let exceeds_reservation = self.end_with(id, update, true);
        if exceeds_reservation {
            self.is_urgent.notify_one();
        }
        self.has_changes.notify_one();
    }

    /// Ends a completion. Returns whether it used more than was reserved for it.
    fn end_with(&self, id: &CompletionId, update: impl FnOnce(&mut UsageRow), is_reported: bool) -> bool {
        let Some(mut row) = self.state().entries.get(id).map(|entry| entry.row.clone()) else { return false };
        let reserved = (row.tokens(), row.cost);
        update(&mut row);
        row.likely = None;
        let exceeds_reservation = row.tokens() > reserved.0 || row.cost > reserved.1;
        let segment = self.journal.append(&RecordRef::Ended(&row));
        {
            let mut state = self.state();
            let Some(entry) = state.entries.get_mut(id) else { return false };
            entry.row = row;
            entry.status = Status::Ended;
            entry.segments[1] = segment;
            self.ends.add(&entry.row.account);
            if is_reported {
                state.queue_report(id);
            }
            state.to_write.push_back(id.clone());
            state.ended += 1;
        }
        exceeds_reservation
    }

    /// Ends a completion that used nothing.
    pub(super) fn release(&self, id: &CompletionId) {
        let is_journaled = self.state().entries.get(id).is_some_and(|entry| entry.status != Status::Admitted);
        let segment = is_journaled.then(|| self.journal.append(&RecordRef::Released(id))).flatten();
        self.end_unused(id, 1, segment);
    }

    /// Releases a spare reservation that nobody has used.
    pub(super) fn release_spare(&self, spare: UsageRow) {
        let id = spare.id.clone();
        self.admit(spare);
        self.end_unused(&id, 1, None);
    }

    /// Releases the reservation of a completion whose admission failed, but may have reached Redis all the same.
    pub(super) fn release_uncertain(&self, row: UsageRow) {
        let id = row.id.clone();
        self.admit(row);
        self.end_unused(&id, UNCERTAIN_RELEASES, None);
    }

    /// Ends a completion that used nothing, as `segment` of the journal says, if the journal knows it.
    fn end_unused(&self, id: &CompletionId, releases: u8, segment: Option<SegmentId>) {
        {
            let mut state = self.state();
            let Some(entry) = state.entries.get_mut(id) else { return };
            entry.status = Status::Released(releases);
            entry.segments[1] = segment;
            self.ends.add(&entry.row.account);
            state.to_release.push_back((id.clone(), Instant::now()));
            state.ended += 1;
        }
        self.has_changes.notify_one();
    }

    /// Takes the next completions that are to be written to Postgres. They go on to
    /// [`mark_written`](Self::mark_written) or come back through [`requeue_unwritten`](Self::requeue_unwritten).
    pub(super) fn take_to_write(&self, limit: usize) -> Vec<UsageRow> {
        let mut state = self.state();
        let mut rows = Vec::new();
        for _ in 0..state.to_write.len() {
            if rows.len() >= limit {
                break;
            }
            let Some(id) = state.to_write.pop_front() else { break };
            match state.entries.get(&id) {
                Some(entry) if entry.status != Status::Ended => {}
                Some(entry) if entry.is_being_revalued => state.to_write.push_back(id),
                Some(entry) => rows.push(entry.row.clone()),
                None => {}
            }
        }
        rows
    }

    /// The number of completions that are queued for Postgres.
    pub(super) fn waiting_to_write(&self) -> usize {
        self.state().to_write.len()
    }

    /// Puts rows that Postgres did not take back into the queue, behind those that it may take.
    pub(super) fn requeue_unwritten(&self, rows: &[UsageRow]) {
        self.state().to_write.extend(rows.iter().map(|row| row.id.clone()));
    }

    /// Records that Postgres has these rows. They are not reported to Redis any more, except by their confirmation.
    pub(super) fn mark_written(&self, rows: &[UsageRow]) {
        let mut state = self.state();
        state.taken += rows.len() as u64;
        for row in rows {
            if let Some(entry) = state.entries.get_mut(&row.id) {
                entry.status = Status::Written;
            }
        }
    }

    /// Whether a report to Redis is under way for any of these completions.
    pub(super) fn is_any_being_revalued(&self, ids: &[CompletionId]) -> bool {
        let state = self.state();
        ids.iter().any(|id| state.entries.get(id).is_some_and(|entry| entry.is_being_revalued))
    }

    /// Removes completions that Postgres has and Redis has confirmed.
    pub(super) fn remove(&self, ids: &[CompletionId]) {
        let removed: Vec<Entry> = {
            let mut state = self.state();
            ids.iter().filter_map(|id| state.entries.remove(id)).collect()
        };
        self.journal.release(removed.into_iter().flat_map(|entry| entry.segments).flatten());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
