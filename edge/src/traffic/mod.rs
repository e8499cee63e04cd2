//! Traffic: every answer of a site is counted once, in memory, and what was counted goes to Postgres.
//!
//! [`receipt`] follows an answer until its body has ended, [`tally`] holds the sums of a project, [`backlog`] what waits for
//! Postgres, [`collector`] brings it there. A client's address leads to a country ([`country`]) and no further. A request for
//! plain HTTP that is led to HTTPS is no visit of a site yet: it is counted when it comes back. Start with [`Traffic::follow`].

mod backlog;
mod collector;
mod country;
mod receipt;
mod tally;
#[cfg(test)]
mod tests;

use std::{
    cell::Cell,
    collections::HashMap,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use domain::{ProjectId, traffic::Count};

pub use self::{collector::Collector, country::CountriesError};
use self::{
    country::Countries,
    tally::{Room, Tally},
};
pub(crate) use self::{
    country::Country,
    receipt::{Answer, Counted, Requested},
};
use crate::limits;

thread_local! {
    /// The number of this thread among those that count.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The traffic of this edge since the last collection.
pub struct Traffic {
    /// One for each thread, so that none waits for another.
    shards: Box<[Shard]>,
    threads: AtomicUsize,
    countries: Countries,
}

/// Traffic that one thread has counted. On cache lines of its own.
#[repr(align(128))]
struct Shard(Mutex<Counts>);

/// Tallies by project.
struct Counts {
    projects: HashMap<ProjectId, Tally>,
    room: Room,
    /// Answers of projects for which there was no room.
    dropped: u64,
}

impl Counts {
    fn new(shards: usize) -> Self {
        Self { projects: HashMap::new(), room: Room::of(limits::COUNTED_BYTES / shards), dropped: 0 }
    }

    fn add(&mut self, answer: &Answer, count: Count) {
        if let Some(tally) = self.projects.get_mut(&answer.site.project) {
            tally.add(answer, count, &mut self.room);
        } else if self.room.take_for_project() {
            let mut tally = Tally::default();
            tally.add(answer, count, &mut self.room);
            self.projects.insert(answer.site.project.clone(), tally);
        } else {
            self.dropped += count.requests;
        }
    }
}

impl Traffic {
    /// Nothing counted yet, by `threads`, with the countries of `geoip_file`. It is there for as long as the program: answers
    /// that were to share it by reference counts would all write to one, from every core.
    pub fn new(threads: usize, geoip_file: Option<&Path>) -> Result<&'static Self, CountriesError> {
        let shards = threads.clamp(1, limits::TRAFFIC_SHARDS);
        Ok(Box::leak(Box::new(Self {
            shards: (0..shards).map(|_| Shard(Mutex::new(Counts::new(shards)))).collect(),
            threads: AtomicUsize::new(0),
            countries: Countries::open(geoip_file)?,
        })))
    }

    /// Adds to what `answer` is counted as.
    fn add(&self, answer: &Answer, count: Count) {
        let thread = THREAD.with(|thread| {
            thread.get().unwrap_or_else(|| {
                let number = self.threads.fetch_add(1, Ordering::Relaxed);
                thread.set(Some(number));
                number
            })
        });
        let shard = &self.shards[thread % self.shards.len()];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner).add(answer, count);
    }

    /// Takes out what was counted.
    fn take(&self) -> impl Iterator<Item = Counts> {
        self.shards.iter().map(|shard| {
            let mut counts = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *counts, Counts::new(self.shards.len()))
        })
    }
}
