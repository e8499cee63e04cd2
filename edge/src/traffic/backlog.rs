//! Traffic that was collected and waits for Postgres, by hour and project, within bounds.

use std::collections::{BTreeMap, VecDeque};

use domain::{
    ProjectId, Timestamp,
    traffic::{HourTraffic, Sums},
};

use super::{
    Counts,
    tally::{Room, Tally},
};
use crate::limits;

/// Traffic that waits.
pub(super) struct Backlog {
    hours: BTreeMap<(Timestamp, ProjectId), Tally>,
    /// The rest of an hour that was too large for one batch.
    rest: VecDeque<HourTraffic>,
    room: Room,
}

/// Answers that were not counted as what they were.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Losses {
    /// Not counted at all: there was no room for their project.
    pub(super) dropped: u64,
    /// Counted in the sums, but as `(other)` path or hostname.
    pub(super) others: u64,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { hours: BTreeMap::new(), rest: VecDeque::new(), room: Room::of(limits::BACKLOG_BYTES) }
    }
}

impl Backlog {
    /// Adds what was counted within `hour`.
    pub(super) fn add(&mut self, counts: Counts, hour: Timestamp) -> Losses {
        let mut losses = Losses { dropped: counts.dropped, others: 0 };
        for (project, tally) in counts.projects {
            let key = (hour, project);
            if !self.hours.contains_key(&key) && !self.room.take_for_project() {
                losses.dropped += tally.requests();
                continue;
            }
            let waiting = self.hours.entry(key).or_default();
            let before = waiting.others();
            waiting.merge(tally, &mut self.room);
            losses.others += waiting.others() - before;
        }
        losses
    }

    /// The hours of projects that wait.
    pub(super) fn len(&self) -> usize {
        self.hours.len() + self.rest.len()
    }

    /// Takes out as much as goes into one batch; empty when nothing waits.
    pub(super) fn next_batch(&mut self) -> Vec<HourTraffic> {
        let (mut batch, mut keys) = (Vec::new(), 0);
        while batch.len() < limits::TRAFFIC_BATCH_HOURS && keys < limits::TRAFFIC_BATCH_KEYS {
            let Some(mut part) = self.rest.pop_front().or_else(|| self.pop_hour()) else { break };
            let most = limits::TRAFFIC_BATCH_KEYS - keys;
            if part.entries.len() > most {
                let entries = part.entries.split_off(most);
                // The sums go with the first part.
                let HourTraffic { hour, project, .. } = &part;
                let (hour, project, sums) = (*hour, project.clone(), Sums::default());
                self.rest.push_front(HourTraffic { hour, project, sums, entries });
            }
            keys += part.entries.len();
            batch.push(part);
        }
        batch
    }

    fn pop_hour(&mut self) -> Option<HourTraffic> {
        let ((hour, project), tally) = self.hours.pop_first()?;
        self.room.give_back(tally.weight());
        Some(tally.into_traffic(hour, project))
    }
}
