//! What this edge answers for: every completion from its admission until Postgres has its row and Redis knows.
//!
//! Each step is in the journal before it is here. The queues hold ids of entries, so they are bounded as the entries
//! are; an id whose entry is gone, or has moved on, is passed over.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use domain::{CompletionId, usage::UsageRow};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::journal::{Journal, Line, Segments};
use crate::limits;

/// How often a reservation is given back of which it is not known whether it stands, and how long after each other: a
/// connection to Redis that broke may still bring what was sent over it.
const UNSURE_RELEASES: u8 = 2;
const UNSURE_PAUSE: Duration = Duration::from_secs(2);

/// The books of an edge.
pub(super) struct Books {
    pages: Mutex<Pages>,
    pub(super) journal: Journal,
    /// Woken when there is something to tell Redis.
    pub(super) news: Notify,
    /// Woken when that cannot wait: somebody waits for it, or more was used than Redis believes.
    pub(super) urgent: Notify,
    /// Of how many ends Redis has been told.
    told: watch::Sender<u64>,
}

#[derive(Default)]
struct Pages {
    entries: HashMap<CompletionId, Entry>,
    /// What Redis has to be told: the new value of a completion.
    to_revalue: VecDeque<CompletionId>,
    /// What has ended, and goes to Postgres.
    to_write: VecDeque<CompletionId>,
    /// What Redis has to be told: a completion used nothing. Not before the instant.
    to_release: VecDeque<(CompletionId, Instant)>,
    /// How many completions have ended, ever.
    ended: u64,
}

struct Entry {
    row: UsageRow,
    state: State,
    /// Where the journal has it.
    segments: Segments,
    /// Redis is being told its value now. Until that is over, it does not go on: a value that arrived after the
    /// completion was confirmed would bring it back.
    in_hand: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Under way.
    Open,
    /// It used what the row says.
    Ended,
    /// Postgres has it.
    Written,
    /// It used nothing; Redis is told so many times more.
    Released(u8),
}

impl Books {
    pub(super) fn new(journal: Journal) -> Self {
        Self {
            pages: Mutex::default(),
            journal,
            news: Notify::new(),
            urgent: Notify::new(),
            told: watch::Sender::new(0),
        }
    }

    /// This edge.
    pub(super) fn edge(&self) -> &str {
        self.journal.edge()
    }

    /// Whether one more can be answered for.
    pub(super) fn has_room(&self) -> bool {
        self.pages().entries.len() < limits::UNSETTLED
    }

    /// How many are answered for.
    pub(super) fn len(&self) -> usize {
        self.pages().entries.len()
    }

    /// Whether this edge answers for a completion.
    pub(super) fn knows(&self, id: &CompletionId) -> bool {
        self.pages().entries.contains_key(id)
    }

    /// How many are under way, and how many have ended without being in Postgres.
    pub(super) fn levels(&self) -> (usize, usize) {
        let pages = self.pages();
        let count = |state| pages.entries.values().filter(|entry| entry.state == state).count();
        (count(State::Open), count(State::Ended))
    }

    /// A completion begins.
    pub(super) fn begin(&self, row: UsageRow) {
        let segments = Segments::of(self.journal.append(&Line::Open(&row)));
        let entry = Entry { row, state: State::Open, segments, in_hand: false };
        self.pages().entries.insert(entry.row.id.clone(), entry);
    }

    /// A completion ends; `change` makes its row say what was used.
    pub(super) fn end(&self, id: &CompletionId, change: impl FnOnce(&mut UsageRow)) {
        let Some(mut row) = self.pages().entries.get(id).map(|entry| entry.row.clone()) else { return };
        let reserved = (row.tokens(), row.cost);
        change(&mut row);
        let is_more = row.tokens() > reserved.0 || row.cost > reserved.1;
        let segment = self.journal.append(&Line::Ended(&row));
        {
            let mut pages = self.pages();
            let Some(entry) = pages.entries.get_mut(id) else { return };
            entry.row = row;
            entry.state = State::Ended;
            entry.segments.add(segment);
            pages.to_revalue.push_back(id.clone());
            pages.to_write.push_back(id.clone());
            pages.ended += 1;
        }
        if is_more {
            self.urgent.notify_one();
        }
        self.news.notify_one();
    }

    /// A completion used nothing.
    pub(super) fn release(&self, id: &CompletionId) {
        let segment = self.journal.append(&Line::Released(id));
        self.give_back(id, segment, 1);
    }

    /// A completion did not begin, but its reservation may stand.
    pub(super) fn never_began(&self, row: UsageRow) {
        let id = row.id.clone();
        let segments = Segments::of(self.journal.append(&Line::Open(&row)));
        self.pages().entries.insert(id.clone(), Entry { row, state: State::Open, segments, in_hand: false });
        let segment = self.journal.append(&Line::Released(&id));
        self.give_back(&id, segment, UNSURE_RELEASES);
    }

    fn give_back(&self, id: &CompletionId, segment: Option<u64>, times: u8) {
        {
            let mut pages = self.pages();
            let Some(entry) = pages.entries.get_mut(id) else { return };
            entry.state = State::Released(times);
            entry.segments.add(segment);
            pages.to_release.push_back((id.clone(), Instant::now()));
            pages.ended += 1;
        }
        self.news.notify_one();
    }

    /// How many completions have ended, ever.
    pub(super) fn ended(&self) -> u64 {
        self.pages().ended
    }

    /// Redis has been told of so many ends.
    pub(super) fn told(&self, ended: u64) {
        self.told.send_if_modified(|told| std::mem::replace(told, ended.max(*told)) < ended);
    }

    /// Waits, but not for long, until Redis has been told of every end up to now. Says whether it had not been.
    pub(super) async fn all_told(&self) -> bool {
        let ended = self.ended();
        if *self.told.borrow() >= ended {
            return false;
        }
        self.urgent.notify_one();
        let mut told = self.told.subscribe();
        let _ = timeout(limits::TELL_WAIT, told.wait_for(|told| *told >= ended)).await;
        true
    }

    /// Takes over what a dead edge answered for: `row` as it ended, or as it would at most. `released`: it used nothing.
    pub(super) fn take_over(&self, row: UsageRow, released: bool) {
        let id = row.id.clone();
        if self.pages().entries.contains_key(&id) {
            return;
        }
        self.begin(row);
        if released { self.release(&id) } else { self.end(&id, |_| {}) }
    }

    /// Redis may have lost its memory: it is told everything again.
    pub(super) fn tell_all(&self) {
        let mut pages = self.pages();
        let wanted = |entry: &Entry| matches!(entry.state, State::Open | State::Ended);
        let ids: Vec<_> = pages.entries.values().filter(|entry| wanted(entry)).map(|e| e.row.id.clone()).collect();
        pages.to_revalue = ids.into();
        drop(pages);
        self.news.notify_one();
    }

    /// The next completions whose value Redis has to be told.
    pub(super) fn take_to_revalue(&self, limit: usize) -> Vec<UsageRow> {
        let mut pages = self.pages();
        let mut rows = Vec::new();
        while rows.len() < limit
            && let Some(id) = pages.to_revalue.pop_front()
        {
            if let Some(entry) = pages.entries.get_mut(&id)
                && matches!(entry.state, State::Open | State::Ended)
                && !entry.in_hand
            {
                entry.in_hand = true;
                rows.push(entry.row.clone());
            }
        }
        rows
    }

    /// Redis was told this value, or could not be.
    pub(super) fn put_back(&self, row: &UsageRow, told: bool) {
        let mut pages = self.pages();
        let Some(entry) = pages.entries.get_mut(&row.id) else { return };
        entry.in_hand = false;
        // It may have changed meanwhile.
        if !told || entry.row != *row {
            pages.to_revalue.push_back(row.id.clone());
        }
    }

    /// The next completions whose reservations are given back.
    pub(super) fn take_to_release(&self, limit: usize) -> Vec<UsageRow> {
        let (mut pages, now) = (self.pages(), Instant::now());
        let mut rows = Vec::new();
        for _ in 0..pages.to_release.len().min(limit) {
            let Some((id, due)) = pages.to_release.pop_front() else { break };
            match pages.entries.get(&id) {
                Some(entry) if due <= now && !entry.in_hand => rows.push(entry.row.clone()),
                Some(_) => pages.to_release.push_back((id, due)),
                None => {}
            }
        }
        rows
    }

    /// Redis has given it back, or could not be asked.
    pub(super) fn given_back(&self, id: &CompletionId, done: bool) {
        let mut pages = self.pages();
        let Some(Entry { state: State::Released(times), .. }) = pages.entries.get_mut(id) else { return };
        *times = times.saturating_sub(u8::from(done));
        if *times > 0 {
            pages.to_release.push_back((id.clone(), Instant::now() + UNSURE_PAUSE));
        } else if let Some(entry) = pages.entries.remove(id) {
            drop(pages);
            self.journal.forget(&[entry.segments]);
        }
    }

    /// The next completions for Postgres.
    pub(super) fn take_to_write(&self, limit: usize) -> Vec<UsageRow> {
        let mut pages = self.pages();
        let mut rows = Vec::new();
        for _ in 0..pages.to_write.len() {
            if rows.len() >= limit {
                break;
            }
            let Some(id) = pages.to_write.pop_front() else { break };
            match pages.entries.get(&id) {
                Some(entry) if entry.state != State::Ended => {}
                Some(entry) if entry.in_hand => pages.to_write.push_back(id),
                Some(entry) => rows.push(entry.row.clone()),
                None => {}
            }
        }
        rows
    }

    /// Postgres did not take them.
    pub(super) fn not_written(&self, rows: &[UsageRow]) {
        let mut pages = self.pages();
        for row in rows.iter().rev() {
            pages.to_write.push_front(row.id.clone());
        }
    }

    /// Postgres has them. From here on Redis is not told their value any more.
    pub(super) fn written(&self, rows: &[UsageRow]) {
        let mut pages = self.pages();
        for row in rows {
            if let Some(entry) = pages.entries.get_mut(&row.id) {
                entry.state = State::Written;
            }
        }
    }

    /// Whether Redis is just being told the value of one of these.
    pub(super) fn in_hand(&self, ids: &[CompletionId]) -> bool {
        let pages = self.pages();
        ids.iter().any(|id| pages.entries.get(id).is_some_and(|entry| entry.in_hand))
    }

    /// Postgres has them and Redis knows: nobody has to answer for them any more.
    pub(super) fn forget(&self, ids: &[CompletionId]) {
        let segments: Vec<Segments> = {
            let mut pages = self.pages();
            ids.iter().filter_map(|id| pages.entries.remove(id)).map(|entry| entry.segments).collect()
        };
        self.journal.forget(&segments);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
