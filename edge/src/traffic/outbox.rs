//! Batches that wait for Postgres: all of them in the journal, as many as there is room for in memory too.
//!
//! Their order is that of their numbers, because Postgres takes a batch for one that it has had when a later one came before.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    hash::{BuildHasher as _, RandomState},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use domain::{ProjectId, traffic::HourTraffic};

use super::{
    batch::{Batch, divide, merge},
    journal::Journal,
};
use crate::{limits, spool::SegmentId};

/// The batches of this edge that wait.
pub(super) struct Outbox {
    pub(super) journal: Journal,
    bounds: Bounds,
    /// The number of the last batch. Held while batches enter, so that the journal has them in order as well.
    number: Mutex<i64>,
    queue: Mutex<Queue>,
}

/// Bytes of waiting batches in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Beyond which those that the journal has are on disk alone.
    pub(super) journaled: usize,
    /// Beyond which those that the journal does not take are dropped.
    pub(super) unjournaled: usize,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Bytes in memory.
    bytes: usize,
    /// Batches that have entered and are not done with.
    waiting: usize,
}

/// The next to be sent.
pub(super) enum Item {
    Batch(Waiting),
    Run(Run),
}

/// A batch in memory.
pub(super) struct Waiting {
    pub(super) batch: Batch,
    /// The segment of the journal that has it too.
    segment: Option<SegmentId>,
}

/// Batches that follow each other, added up into one. It carries the number of the last of them: Postgres then takes each for one
/// that it has had, whoever sends it again.
pub(super) struct Sum {
    pub(super) batch: Batch,
    /// The segment of each batch, to be [settled](Outbox::settle).
    pub(super) segments: Vec<Option<SegmentId>>,
}

/// The distinct projects and keys of the batches that a [`Sum`] has so far. Two that collide only make the sum larger than its bound
/// by one.
struct Distinct {
    projects: HashSet<u64>,
    keys: HashSet<u64>,
    hasher: RandomState,
}

/// The traffic of one site that is sent ahead of the batches that it is in.
pub(super) struct SiteTraffic {
    pub(super) project: ProjectId,
    /// Its traffic, under the number of the last of these batches.
    pub(super) batch: Batch,
}

/// Batches that follow each other in one segment of the journal and are not in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    segment: SegmentId,
    first: i64,
    last: i64,
    batches: usize,
    answers: u64,
}

impl Outbox {
    /// An empty one.
    pub(super) fn new(journal: Journal, bounds: Bounds) -> Self {
        Self { journal, bounds, number: Mutex::default(), queue: Mutex::default() }
    }

    /// Takes what was collected: to the journal, and to memory as far as there is room. Returns the number of answers that found
    /// room in neither. Blocks.
    pub(super) fn put(&self, traffic: Vec<HourTraffic>) -> u64 {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let is_behind = self.len() > 0;
        let mut lost = 0;
        for traffic in divide(traffic) {
            *number += 1;
            let batch = Batch { number: *number, traffic };
            // At the start its scope may not be known yet.
            let segment = if self.journal.has_scope() { self.journal.append(&&batch) } else { None };
            lost += self.queue().push(Waiting { batch, segment }, self.bounds);
        }
        // What waits for longer is to survive the machine too.
        if is_behind {
            self.journal.sync();
        }
        lost
    }

    /// The next to be sent. It is given back to [`settle`](Self::settle) or [`give_up`](Self::give_up).
    pub(super) fn next(&self) -> Option<Item> {
        let mut queue = self.queue();
        let next = queue.items.pop_front()?;
        if let Item::Batch(waiting) = &next {
            queue.bytes = queue.bytes.saturating_sub(waiting.batch.weight());
        }
        Some(next)
    }

    /// Adds to `first` the batches behind it, as many as are in memory, of the same hour, and within the bounds of one statement. A batch
    /// all of which was sent ahead is of any hour.
    pub(super) fn add_up(&self, first: Waiting) -> Sum {
        let mut distinct = Distinct::of(&first.batch);
        let (mut hour, mut number) = (first.batch.hour(), first.batch.number);
        let (mut parts, mut segments) = (first.batch.traffic, vec![first.segment]);
        let mut queue = self.queue();
        while let Some(Item::Batch(next)) = queue.items.front()
            && (next.batch.hour() == hour || hour.is_none() || next.batch.hour().is_none())
            && distinct.has_room_for(&next.batch)
            && let Some(Item::Batch(next)) = queue.items.pop_front()
        {
            queue.bytes = queue.bytes.saturating_sub(next.batch.weight());
            hour = hour.or(next.batch.hour());
            number = next.batch.number;
            parts.extend(next.batch.traffic);
            segments.push(next.segment);
        }
        drop(queue);
        let traffic = if segments.len() > 1 { merge(parts) } else { parts };
        Sum { batch: Batch { number, traffic }, segments }
    }

    /// The traffic of `projects`, each added up, out of all batches that wait. `None` when some are not in memory, or hold more of a
    /// site than one statement takes: all batches are to be sent then.
    pub(super) fn ahead(&self, projects: &HashSet<ProjectId>) -> Option<Vec<SiteTraffic>> {
        let queue = self.queue();
        let mut found: BTreeMap<&ProjectId, (i64, Vec<HourTraffic>)> = BTreeMap::new();
        for item in &queue.items {
            let Item::Batch(Waiting { batch, .. }) = item else { return None };
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
            // Each hour by itself.
            let hours = parts.chunk_by(|one, next| one.hour == next.hour);
            let traffic: Vec<HourTraffic> = hours.flat_map(|hour| merge(hour.to_vec())).collect();
            let keys: usize = traffic.iter().map(|part| part.entries.len() + part.visitors.len()).sum();
            (keys <= limits::TRAFFIC_SENT_KEYS)
                .then(|| SiteTraffic { project: project.clone(), batch: Batch { number, traffic } })
        };
        found.into_iter().map(add_up).collect()
    }

    /// Takes the traffic of a site that was sent ahead out of the batches that it was in.
    pub(super) fn take_out(&self, project: &ProjectId, last: i64) {
        let mut queue = self.queue();
        let mut bytes = 0;
        for item in &mut queue.items {
            if let Item::Batch(Waiting { batch, .. }) = item {
                batch.take_out(project, last);
                bytes += batch.weight();
            }
        }
        queue.bytes = bytes;
    }

    /// Brings batches back to memory, as the next ones. Returns the number of answers of those that the journal had and that
    /// cannot be read any more. Blocks.
    pub(super) fn read_back(&self, run: Run) -> io::Result<u64> {
        let numbers = run.first..=run.last;
        let mut batches: Vec<Batch> =
            self.journal.read_unreleased(run.segment, |batches: &mut Vec<Batch>, batch| {
                if numbers.contains(&batch.number) {
                    batches.push(batch);
                }
            })?;
        batches.sort_unstable_by_key(|batch| batch.number);
        let (found, answers) = (batches.len(), batches.iter().map(Batch::answers).sum());
        let mut queue = self.queue();
        for batch in batches.into_iter().rev() {
            queue.bytes += batch.weight();
            queue.items.push_front(Item::Batch(Waiting { batch, segment: Some(run.segment) }));
        }
        let unreadable = run.batches.saturating_sub(found);
        queue.waiting = queue.waiting.saturating_sub(unreadable);
        drop(queue);
        self.journal.release(std::iter::repeat_n(run.segment, unreadable));
        Ok(run.answers.saturating_sub(answers))
    }

    /// Gives batches up that cannot be read back. Returns the number of their answers. Blocks.
    pub(super) fn give_up(&self, run: Run) -> u64 {
        let mut queue = self.queue();
        queue.waiting = queue.waiting.saturating_sub(run.batches);
        drop(queue);
        self.journal.release(std::iter::repeat_n(run.segment, run.batches));
        run.answers
    }

    /// A batch is done with. Blocks.
    pub(super) fn settle(&self, segment: Option<SegmentId>) {
        let mut queue = self.queue();
        queue.waiting = queue.waiting.saturating_sub(1);
        drop(queue);
        self.journal.release(segment);
    }

    /// The number of batches that wait, the one that is being sent included.
    pub(super) fn len(&self) -> usize {
        self.queue().waiting
    }

    /// Bytes of the batches that wait in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.queue().bytes
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Lets a batch wait, with all before it. Returns the number of its answers when there is no room for it.
    fn push(&mut self, Waiting { batch, segment }: Waiting, bounds: Bounds) -> u64 {
        let bytes = self.bytes + batch.weight();
        match segment {
            Some(segment) if bytes > bounds.journaled => self.push_run(segment, &batch),
            None if bytes > bounds.unjournaled => return batch.answers(),
            _ => {
                self.bytes = bytes;
                self.items.push_back(Item::Batch(Waiting { batch, segment }));
            }
        }
        self.waiting += 1;
        0
    }

    fn push_run(&mut self, segment: SegmentId, batch: &Batch) {
        let Batch { number, .. } = *batch;
        let answers = batch.answers();
        match self.items.back_mut() {
            Some(Item::Run(run)) if run.segment == segment => {
                (run.last, run.batches, run.answers) = (number, run.batches + 1, run.answers + answers);
            }
            _ => self.items.push_back(Item::Run(Run { segment, first: number, last: number, batches: 1, answers })),
        }
    }
}

impl Distinct {
    fn of(batch: &Batch) -> Self {
        let mut distinct = Self { projects: HashSet::new(), keys: HashSet::new(), hasher: RandomState::new() };
        distinct.has_room_for(batch);
        distinct
    }

    /// Adds what a batch names. Returns whether all of it together is within the bounds of a statement.
    fn has_room_for(&mut self, batch: &Batch) -> bool {
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
