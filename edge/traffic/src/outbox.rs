//! Batches pending for Postgres: all of them in the journal, and in memory as far as there is room.
//!
//! They keep the order of their numbers, because Postgres ignores a batch after a later one.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    hash::{BuildHasher as _, RandomState},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::{ProjectId, traffic::HourTraffic};
use spool::SegmentId;

use super::{
    batch::{TrafficBatch, merge, split_batches},
    journal::BatchJournal,
};

/// The pending batches of this edge.
pub(super) struct BatchOutbox {
    pub(super) journal: BatchJournal,
    bounds: MemoryBounds,
    /// The number of the last batch. Locked while batches enter, so that the journal has them in order as well.
    number: Mutex<i64>,
    queue: Mutex<BatchQueue>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryBounds {
    /// The limit beyond which journaled batches are on disk only.
    pub(super) journaled: usize,
    /// The limit beyond which batches that the journal does not accept are dropped.
    pub(super) unjournaled: usize,
}

#[derive(Default)]
struct BatchQueue {
    items: VecDeque<QueueItem>,
    bytes: usize,
    waiting: usize,
}

pub(super) enum QueueItem {
    Batch(PendingBatch),
    Run(JournaledRun),
}

pub(super) struct PendingBatch {
    pub(super) batch: TrafficBatch,
    segment: Option<SegmentId>,
}

/// Consecutive batches, added up. It has the number of the last one, so that Postgres ignores each if it is sent again.
pub(super) struct BatchSum {
    pub(super) batch: TrafficBatch,
    /// The segment of each batch, to be [settled](BatchOutbox::settle).
    pub(super) segments: Vec<Option<SegmentId>>,
}

/// The distinct projects and keys in a [`BatchSum`] so far. A hash collision only makes the sum exceed its bound by one.
struct DistinctKeys {
    projects: HashSet<u64>,
    keys: HashSet<u64>,
    hasher: RandomState,
}

/// The traffic of one site, sent ahead of the batches that contain it.
pub(super) struct SiteTraffic {
    pub(super) project: ProjectId,
    /// Its traffic, under the number of the last of these batches.
    pub(super) batch: TrafficBatch,
}

/// Consecutive batches in one segment of the journal that are not in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournaledRun {
    segment: SegmentId,
    first: i64,
    last: i64,
    batches: usize,
    answers: u64,
}

impl BatchOutbox {
    pub(super) fn new(journal: BatchJournal, bounds: MemoryBounds) -> Self {
        Self { journal, bounds, number: Mutex::default(), queue: Mutex::default() }
    }

    /// Adds traffic to the journal, and to memory if there is room. Returns how many responses are in neither. Blocks.
    pub(super) fn put(&self, traffic: Vec<HourTraffic>) -> u64 {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let is_behind = self.pending() > 0;
        let mut lost = 0;
        for traffic in split_batches(traffic) {
            *number += 1;
            let batch = TrafficBatch { number: *number, traffic };
            // At startup, its scope may not be known yet.
            let segment = if self.journal.has_scope() { self.journal.append(&&batch) } else { None };
            lost += self.queue().push(PendingBatch { batch, segment }, self.bounds);
        }
        // Traffic that waits for longer has to survive a crash of the machine, too.
        if is_behind {
            self.journal.sync();
        }
        lost
    }

    /// Returns the next item to send. Pass it to [`settle`](Self::settle) or [`give_up`](Self::give_up) afterwards.
    pub(super) fn next(&self) -> Option<QueueItem> {
        let mut queue = self.queue();
        let next = queue.items.pop_front()?;
        if let QueueItem::Batch(waiting) = &next {
            queue.bytes = queue.bytes.saturating_sub(waiting.batch.weight());
        }
        Some(next)
    }

    /// Adds to `first` the batches after it that are in memory, of the same hour, and within the bounds of one
    /// statement. A batch that was sent ahead entirely matches any hour.
    pub(super) fn add_up(&self, first: PendingBatch) -> BatchSum {
        let mut distinct = DistinctKeys::from_batch(&first.batch);
        let (mut hour, mut number) = (first.batch.hour(), first.batch.number);
        let (mut parts, mut segments) = (first.batch.traffic, vec![first.segment]);
        let mut queue = self.queue();
        while let Some(QueueItem::Batch(next)) = queue.items.front()
            && (next.batch.hour() == hour || hour.is_none() || next.batch.hour().is_none())
            && distinct.try_add(&next.batch)
            && let Some(QueueItem::Batch(next)) = queue.items.pop_front()
        {
            queue.bytes = queue.bytes.saturating_sub(next.batch.weight());
            hour = hour.or(next.batch.hour());
            number = next.batch.number;
            parts.extend(next.batch.traffic);
            segments.push(next.segment);
        }
        drop(queue);
        let traffic = if segments.len() > 1 { merge(parts) } else { parts };
        BatchSum { batch: TrafficBatch { number, traffic }, segments }
    }

    /// Returns the pending traffic of `projects`, added up for each. Returns `None` if all batches have to be sent
    /// instead: some are not in memory, or contain more of a site than one statement may have.
    pub(super) fn site_traffic(&self, projects: &HashSet<ProjectId>) -> Option<Vec<SiteTraffic>> {
        let queue = self.queue();
        let mut found: BTreeMap<&ProjectId, (i64, Vec<HourTraffic>)> = BTreeMap::new();
        for item in &queue.items {
            let QueueItem::Batch(PendingBatch { batch, .. }) = item else { return None };
            for part in &batch.traffic {
                if let Some(project) = projects.get(&part.project) {
                    let (last, parts) = found.entry(project).or_default();
                    *last = batch.number;
                    parts.push(part.clone());
                }
            }
        }
        drop(queue);
        let add_up = |(project, (number, parts)): (&ProjectId, (i64, Vec<HourTraffic>))| {
            // Each hour separately.
            let hours = parts.chunk_by(|one, next| one.hour == next.hour);
            let traffic: Vec<HourTraffic> = hours.flat_map(|hour| merge(hour.to_vec())).collect();
            let keys: usize = traffic.iter().map(|part| part.entries.len() + part.visitors.len()).sum();
            (keys <= limits::TRAFFIC_SENT_KEYS)
                .then(|| SiteTraffic { project: project.clone(), batch: TrafficBatch { number, traffic } })
        };
        found.into_iter().map(add_up).collect()
    }

    pub(super) fn remove_site(&self, project: &ProjectId, last: i64) {
        let mut queue = self.queue();
        let mut bytes = 0;
        for item in &mut queue.items {
            if let QueueItem::Batch(PendingBatch { batch, .. }) = item {
                batch.remove_project(project, last);
                bytes += batch.weight();
            }
        }
        queue.bytes = bytes;
    }

    /// Loads batches back as the next ones. Returns how many responses can no longer be read. Blocks.
    pub(super) fn read_back(&self, run: JournaledRun) -> io::Result<u64> {
        let numbers = run.first..=run.last;
        let mut batches: Vec<TrafficBatch> =
            self.journal.read_unreleased(run.segment, |batches: &mut Vec<TrafficBatch>, batch| {
                if numbers.contains(&batch.number) {
                    batches.push(batch);
                }
            })?;
        batches.sort_unstable_by_key(|batch| batch.number);
        let (found, answers) = (batches.len(), batches.iter().map(TrafficBatch::answers).sum());
        let mut queue = self.queue();
        for batch in batches.into_iter().rev() {
            queue.bytes += batch.weight();
            queue.items.push_front(QueueItem::Batch(PendingBatch { batch, segment: Some(run.segment) }));
        }
        let unreadable = run.batches.saturating_sub(found);
        queue.waiting = queue.waiting.saturating_sub(unreadable);
        drop(queue);
        self.journal.release(std::iter::repeat_n(run.segment, unreadable));
        Ok(run.answers.saturating_sub(answers))
    }

    /// Gives up batches that cannot be read back. Returns the number of their responses. Blocks.
    pub(super) fn give_up(&self, run: JournaledRun) -> u64 {
        let mut queue = self.queue();
        queue.waiting = queue.waiting.saturating_sub(run.batches);
        drop(queue);
        self.journal.release(std::iter::repeat_n(run.segment, run.batches));
        run.answers
    }

    pub(super) fn settle(&self, segment: Option<SegmentId>) {
        let mut queue = self.queue();
        queue.waiting = queue.waiting.saturating_sub(1);
        drop(queue);
        self.journal.release(segment);
    }

    /// Returns the number of pending batches, including the one being sent.
    pub(super) fn pending(&self) -> usize {
        self.queue().waiting
    }

    pub(super) fn bytes(&self) -> usize {
        self.queue().bytes
    }

    fn queue(&self) -> MutexGuard<'_, BatchQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchQueue {
    /// Queues a batch. Returns the number of its responses if there is no room for it.
    fn push(&mut self, PendingBatch { batch, segment }: PendingBatch, bounds: MemoryBounds) -> u64 {
        let bytes = self.bytes + batch.weight();
        match segment {
            Some(segment) if bytes > bounds.journaled => self.push_run(segment, &batch),
            None if bytes > bounds.unjournaled => return batch.answers(),
            _ => {
                self.bytes = bytes;
                self.items.push_back(QueueItem::Batch(PendingBatch { batch, segment }));
            }
        }
        self.waiting += 1;
        0
    }

    fn push_run(&mut self, segment: SegmentId, batch: &TrafficBatch) {
        let TrafficBatch { number, .. } = *batch;
        let answers = batch.answers();
        match self.items.back_mut() {
            Some(QueueItem::Run(run)) if run.segment == segment => {
                (run.last, run.batches, run.answers) = (number, run.batches + 1, run.answers + answers);
            }
            _ => self.items.push_back(QueueItem::Run(JournaledRun {
                segment,
                first: number,
                last: number,
                batches: 1,
                answers,
            })),
        }
    }
}

impl DistinctKeys {
    fn from_batch(batch: &TrafficBatch) -> Self {
        let mut distinct = Self { projects: HashSet::new(), keys: HashSet::new(), hasher: RandomState::new() };
        distinct.try_add(batch);
        distinct
    }

    /// Adds the projects and keys of a batch. Returns whether the total is within the bounds of a statement.
    fn try_add(&mut self, batch: &TrafficBatch) -> bool {
        for part in &batch.traffic {
            let project = self.hasher.hash_one(&part.project);
            self.projects.insert(project);
            let keys =
                part.entries.iter().map(|entry| self.hasher.hash_one((project, entry.kind.as_str(), &entry.key)));
            self.keys.extend(keys);
            self.keys
                .extend(part.visitors.iter().map(|register| self.hasher.hash_one((project, register.to_stored()))));
        }
        self.projects.len() <= limits::TRAFFIC_SENT_PROJECTS && self.keys.len() <= limits::TRAFFIC_SENT_KEYS
    }
}

#[cfg(test)]
mod tests;
