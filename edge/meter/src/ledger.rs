//! The ledger: all completions that this edge is responsible for, from admission until Postgres has the row and Redis
//! has Postgres's new totals.
//!
//! Each step of a completion is in the journal before it is in the ledger, except for admission: the journal knows
//! nothing of a completion that was not sent to a provider. The queues hold ids of entries and are bounded like the
//! entries; an id whose entry is gone or has changed state is skipped.

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
    usage::{UsageCertainty, UsageRow},
};
use spool::SegmentId;
use tokio::sync::{Notify, watch};

use self::adoption::SettlingEdges;
pub(super) use self::{adoption::AdoptedJournal, reports::RedisReport};
use super::{
    ends::EndCounters,
    journal::{JournalRecordRef, UsageJournal},
};

/// How many times a reservation is released if its admission may still be on its way to Redis: a broken connection may
/// yet deliver what was sent over it.
const UNCERTAIN_RELEASES: u8 = 2;

pub(super) struct CompletionLedger {
    state: Mutex<LedgerState>,
    pub(super) journal: UsageJournal,
    /// Notified when there is something to report to Redis.
    pub(super) has_changes: Notify,
    /// Notified when a report to Redis is urgent: an admission waits for it, or the usage exceeds the reservation.
    pub(super) is_urgent: Notify,
    /// The number of ended completions that were reported to Redis.
    reported: watch::Sender<u64>,
    /// Counts ended completions, which invalidate refusals for lack of budget.
    pub(super) ends: EndCounters,
    /// Whether a completion was sent to a provider although the journal did not take its record.
    has_gaps: AtomicBool,
    /// Notified when the journal has a gap that Redis may not know of.
    pub(super) has_new_gap: Notify,
}

#[derive(Default)]
struct LedgerState {
    entries: HashMap<CompletionId, LedgerEntry>,
    /// Completions whose current usage must be reported to Redis.
    to_revalue: VecDeque<CompletionId>,
    /// Ended completions that must be written to Postgres.
    to_write: VecDeque<CompletionId>,
    /// Completions whose reservation must be released in Redis, each not before its instant.
    to_release: VecDeque<(CompletionId, Instant)>,
    /// The number of completions that have ended since the process started.
    ended: u64,
    /// The number of rows written to Postgres since the process started.
    taken: u64,
    adoptions: Vec<SettlingEdges>,
}

struct LedgerEntry {
    row: UsageRow,
    status: EntryStatus,
    /// The journal segments that hold the records of this completion.
    segments: [Option<SegmentId>; 2],
    /// Whether a report of the row to Redis is in progress. Until it completes, the entry is not written or confirmed:
    /// a report that arrives after the confirmation would restore the reservation.
    is_being_revalued: bool,
    /// Whether Redis may have lost the completion, so that the next report must reopen it.
    is_lost: bool,
    /// Whether the entry is queued for a report to Redis.
    is_to_revalue: bool,
    /// The provider named in the journal, once a provider was sent the request.
    journaled: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryStatus {
    /// The completion is admitted but has not been sent to a provider.
    Admitted,
    /// The completion was sent to a provider.
    Open,
    /// The completion has used what its row says, and Postgres does not have the row yet.
    Ended,
    /// Postgres has the row.
    Written,
    /// The completion used nothing. Its reservation must be released this many more times.
    Released(u8),
}

impl LedgerState {
    /// Queues a completion for a report to Redis. Returns whether it was not queued yet.
    fn queue_report(&mut self, id: &CompletionId) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        let is_new = !std::mem::replace(&mut entry.is_to_revalue, true);
        if is_new {
            self.to_revalue.push_back(id.clone());
        }
        is_new
    }

    /// Queues a record for Postgres that a completion used nothing.
    fn write_unused(&mut self, id: &CompletionId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        entry.row.set_unused();
        if entry.segments[0].is_some() {
            entry.row.certainty = UsageCertainty::Failed;
        }
        entry.status = EntryStatus::Ended;
        self.to_write.push_back(id.clone());
    }
}

impl EntryStatus {
    fn is_reported(self) -> bool {
        matches!(self, Self::Admitted | Self::Open | Self::Ended)
    }
}

impl CompletionLedger {
    pub(super) fn new(journal: UsageJournal) -> Self {
        Self {
            state: Mutex::default(),
            journal,
            has_changes: Notify::new(),
            is_urgent: Notify::new(),
            reported: watch::Sender::new(0),
            ends: EndCounters::new(),
            has_gaps: AtomicBool::new(false),
            has_new_gap: Notify::new(),
        }
    }

    pub(super) fn edge(&self) -> &str {
        self.journal.owner()
    }

    pub(super) fn has_room(&self) -> bool {
        self.len() < limits::UNSETTLED && self.journal.has_room()
    }

    pub(super) fn len(&self) -> usize {
        self.state().entries.len()
    }

    pub(super) fn contains(&self, id: &CompletionId) -> bool {
        self.state().entries.contains_key(id)
    }

    /// Returns the number of pending completions, and of ended ones that Postgres does not have.
    pub(super) fn pending_and_unwritten(&self) -> (usize, usize) {
        let state = self.state();
        let count =
            |statuses: &[EntryStatus]| state.entries.values().filter(|entry| statuses.contains(&entry.status)).count();
        (count(&[EntryStatus::Admitted, EntryStatus::Open]), count(&[EntryStatus::Ended]))
    }

    /// Returns the number of rows written to Postgres so far, if any others are waiting.
    pub(super) fn rows_written_if_waiting(&self) -> Option<u64> {
        let state = self.state();
        state.entries.values().any(|entry| entry.status == EntryStatus::Ended).then_some(state.taken)
    }

    /// Enters an admitted completion. Its row has the most that it can use.
    pub(super) fn admit(&self, row: UsageRow) {
        let (status, segments) = (EntryStatus::Admitted, [None, None]);
        let entry = LedgerEntry {
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

    /// Journals that an admitted completion is sent to a provider, or an open one to another. Otherwise does nothing.
    pub(super) fn open(&self, id: &CompletionId) {
        let row = match self.state().entries.get(id) {
            Some(entry) if entry.status == EntryStatus::Admitted => entry.row.clone(),
            Some(entry)
                if entry.status == EntryStatus::Open && entry.journaled.as_ref() != Some(&entry.row.provider) =>
            {
                entry.row.clone()
            }
            _ => return,
        };
        let segment = self.journal.append(&JournalRecordRef::Open(&row));
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id) else { return };
        let is_first = entry.status == EntryStatus::Admitted;
        (entry.status, entry.journaled) = (EntryStatus::Open, Some(row.provider));
        // If the journal does not take a second record, the first one remains, with the same amounts.
        let former =
            if is_first || segment.is_some() { std::mem::replace(&mut entry.segments[0], segment) } else { None };
        drop(state);
        if is_first && segment.is_none() {
            self.has_gaps.store(true, Ordering::Relaxed);
            self.has_new_gap.notify_one();
        }
        // The second record is self-contained, whatever happens to the segment of the first.
        self.journal.release(former);
    }

    /// Sets the provider of a completion, here and in Redis. The journal records it when that provider gets the
    /// request.
    pub(super) fn set_provider(&self, id: &CompletionId, provider: &Arc<str>) {
        {
            let mut state = self.state();
            let Some(entry) = state.entries.get_mut(id) else { return };
            entry.row.provider = provider.clone();
            state.queue_report(id);
        }
        self.has_changes.notify_one();
    }

    /// Returns whether a completion was sent to a provider and has not ended.
    pub(super) fn is_open(&self, id: &CompletionId) -> bool {
        self.state().entries.get(id).is_some_and(|entry| entry.status == EntryStatus::Open)
    }

    pub(super) fn has_gaps(&self) -> bool {
        self.has_gaps.load(Ordering::Relaxed)
    }

    /// Ends a completion. `update` sets its row to the actual usage.
    pub(super) fn end(&self, id: &CompletionId, update: impl FnOnce(&mut UsageRow)) {
        let exceeds_reservation = self.end_with(id, update, true);
        if exceeds_reservation {
            self.is_urgent.notify_one();
        }
        self.has_changes.notify_one();
    }

    /// Ends a completion. Returns whether it used more than its reservation.
    fn end_with(&self, id: &CompletionId, update: impl FnOnce(&mut UsageRow), is_reported: bool) -> bool {
        let Some(mut row) = self.state().entries.get(id).map(|entry| entry.row.clone()) else { return false };
        let reserved = (row.tokens(), row.cost);
        update(&mut row);
        row.likely = None;
        let exceeds_reservation = row.tokens() > reserved.0 || row.cost > reserved.1;
        let segment = self.journal.append(&JournalRecordRef::Ended(&row));
        {
            let mut state = self.state();
            let Some(entry) = state.entries.get_mut(id) else { return false };
            entry.row = row;
            entry.status = EntryStatus::Ended;
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

    pub(super) fn release(&self, id: &CompletionId) {
        let is_journaled = self.state().entries.get(id).is_some_and(|entry| entry.status != EntryStatus::Admitted);
        let segment = is_journaled.then(|| self.journal.append(&JournalRecordRef::Released(id))).flatten();
        self.end_unused(id, 1, segment);
    }

    pub(super) fn release_spare(&self, spare: UsageRow) {
        let id = spare.id.clone();
        self.admit(spare);
        self.end_unused(&id, 1, None);
    }

    /// Releases the reservation of a completion whose admission failed but may have reached Redis.
    pub(super) fn release_uncertain(&self, row: UsageRow) {
        let id = row.id.clone();
        self.admit(row);
        self.end_unused(&id, UNCERTAIN_RELEASES, None);
    }

    /// Ends a completion that used nothing. `segment` has its record, if it is in the journal.
    fn end_unused(&self, id: &CompletionId, releases: u8, segment: Option<SegmentId>) {
        {
            let mut state = self.state();
            let Some(entry) = state.entries.get_mut(id) else { return };
            entry.status = EntryStatus::Released(releases);
            entry.segments[1] = segment;
            self.ends.add(&entry.row.account);
            state.to_release.push_back((id.clone(), Instant::now()));
            state.ended += 1;
        }
        self.has_changes.notify_one();
    }

    /// Takes the next completions to write to Postgres. They continue with [`mark_written`](Self::mark_written), or
    /// return through [`requeue_unwritten`](Self::requeue_unwritten).
    pub(super) fn take_to_write(&self, limit: usize) -> Vec<UsageRow> {
        let mut state = self.state();
        let mut rows = Vec::new();
        for _ in 0..state.to_write.len() {
            if rows.len() >= limit {
                break;
            }
            let Some(id) = state.to_write.pop_front() else { break };
            match state.entries.get(&id) {
                Some(entry) if entry.status != EntryStatus::Ended => {}
                Some(entry) if entry.is_being_revalued => state.to_write.push_back(id),
                Some(entry) => rows.push(entry.row.clone()),
                None => {}
            }
        }
        rows
    }

    pub(super) fn waiting_to_write(&self) -> usize {
        self.state().to_write.len()
    }

    /// Requeues rows that Postgres did not accept, behind all others.
    pub(super) fn requeue_unwritten(&self, rows: &[UsageRow]) {
        self.state().to_write.extend(rows.iter().map(|row| row.id.clone()));
    }

    /// Records that Postgres has these rows. From now on only their confirmation is sent to Redis.
    pub(super) fn mark_written(&self, rows: &[UsageRow]) {
        let mut state = self.state();
        state.taken += rows.len() as u64;
        for row in rows {
            if let Some(entry) = state.entries.get_mut(&row.id) {
                entry.status = EntryStatus::Written;
            }
        }
    }

    pub(super) fn is_any_report_pending(&self, ids: &[CompletionId]) -> bool {
        let state = self.state();
        ids.iter().any(|id| state.entries.get(id).is_some_and(|entry| entry.is_being_revalued))
    }

    /// Removes completions that Postgres has and that are confirmed to Redis.
    pub(super) fn remove(&self, ids: &[CompletionId]) {
        let removed: Vec<LedgerEntry> = {
            let mut state = self.state();
            ids.iter().filter_map(|id| state.entries.remove(id)).collect()
        };
        self.journal.release(removed.into_iter().flat_map(|entry| entry.segments).flatten());
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
