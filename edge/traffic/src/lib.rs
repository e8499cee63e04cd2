//! Traffic: every response of a site is counted once, in memory, and the counts are sent to Postgres.
//!
//! [`agents`] classifies clients by their requests, [`people`] by what they do. [`receipt`] follows a response until
//! its body has ended, [`tally`] holds the sums of a project, [`hour_keys`] bounds their keys, [`outbox`] holds the
//! [batches](batch) pending for Postgres, in memory and in the [`journal`], and [`collector`] sends them. A client's
//! address is kept only as a country ([`country`]) and, hashed, in a count of visitors. A plain HTTP request that is
//! redirected to HTTPS is not a visit yet: it is counted when it returns. Start with [`TrafficCounter::follow`].

mod adoption;
pub mod agents;
mod batch;
mod collector;
mod country;
mod country_file;
mod hour_keys;
mod journal;
mod outbox;
mod people;
mod receipt;
mod requests;
mod tally;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    cell::Cell,
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use ahash::HashMap;
use domain::{Clock, ProjectId, Timestamp, site::Site, traffic::TrafficCount};
use edge_metrics as metrics;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

pub use self::{agents::AgentRegistry, collector::TrafficCollector, country::CountriesError};
pub use self::{
    agents::ClientClaim,
    country::Country,
    receipt::{CountedBody, CountedRequest, CountedResponse},
};
use self::{
    batch::CollectedTraffic,
    country::CountryLookup,
    hour_keys::HourKeys,
    people::{
        ActionContext, ClientKind, DailySalts, PendingVisitor, VisitorAction, VisitorOutcome, VisitorTracker,
        client::ClientIdentity, client::FetchPurpose, sent::SentRegisters,
    },
    tally::{ClientBreakdown, ProjectTally, TallyRoom},
};

thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The traffic of this edge since the last collection.
pub struct TrafficCounter {
    /// Several shards, so that threads rarely contend.
    shards: Box<[CounterShard]>,
    threads: AtomicUsize,
    countries: CountryLookup,
    agents: AgentRegistry,
    people: VisitorTracker,
    salts: DailySalts,
    sent: Mutex<SentRegisters>,
    hour_keys: Mutex<HourKeys>,
    clock: Clock,
}

/// The traffic counted by one thread, on its own cache lines.
#[repr(align(128))]
struct CounterShard(Mutex<ShardCounts>);

struct ShardCounts {
    projects: Vec<(ProjectId, ProjectTally)>,
    /// The index of each project among them.
    places: HashMap<ProjectId, usize>,
    /// The index of the last one used: the parts of a page follow it.
    last: usize,
    room: TallyRoom,
    /// Responses of projects for which there was no room.
    dropped: u64,
}

impl ShardCounts {
    fn new(shards: usize) -> Self {
        let room = TallyRoom::new(limits::COUNTED_BYTES / shards);
        Self { projects: Vec::new(), places: HashMap::default(), last: 0, room, dropped: 0 }
    }

    fn add(
        &mut self,
        answer: &CountedResponse,
        count: TrafficCount,
        asked: Option<&ClientBreakdown<'_>>,
        outcome: &VisitorOutcome,
    ) {
        let Some((tally, room)) = self.tally(&answer.site) else {
            self.dropped += count.requests;
            return;
        };
        tally.add(answer, count, room);
        if let Some(asked) = asked {
            tally.add_client(asked, count, room);
            if let Some(settled) = &outcome.settled {
                tally.add_settled(asked.kind, settled, room);
            }
        }
        if let Some(register) = outcome.register {
            tally.add_visitor(register, room);
        }
    }

    fn add_settled(&mut self, kind: ClientKind, settled: &PendingVisitor) {
        // Without room, its project's responses were dropped, too.
        if let Some((tally, room)) = self.tally(&settled.site) {
            tally.add_settled(kind, settled, room);
        }
    }

    /// Returns the tally of a project and the remaining room, or `None` if there is no room for another project.
    fn tally(&mut self, site: &Site) -> Option<(&mut ProjectTally, &mut TallyRoom)> {
        let project = &site.project;
        if self.projects.get(self.last).is_none_or(|(last, _)| last != project) {
            self.last = if let Some(place) = self.places.get(project) {
                *place
            } else {
                let tally = self.room.reserve_project(&site.owner)?;
                self.places.insert(project.clone(), self.projects.len());
                self.projects.push((project.clone(), tally));
                self.projects.len() - 1
            };
        }
        Some((&mut self.projects[self.last].1, &mut self.room))
    }
}

impl TrafficCounter {
    /// Creates empty counts for `threads`, with the countries of `geoip_file` and these `agents`. The value is leaked,
    /// because reference counts would make every response on every core write to one counter.
    pub fn new(
        threads: usize,
        geoip_file: Option<&Path>,
        agents: AgentRegistry,
        clock: Clock,
    ) -> Result<&'static Self, CountriesError> {
        let shards = threads.clamp(1, limits::TRAFFIC_SHARDS);
        Ok(Box::leak(Box::new(Self {
            shards: (0..shards).map(|_| CounterShard(Mutex::new(ShardCounts::new(shards)))).collect(),
            threads: AtomicUsize::new(0),
            countries: CountryLookup::open(geoip_file)?,
            agents,
            people: VisitorTracker::new(),
            salts: DailySalts::new(),
            sent: Mutex::default(),
            hour_keys: Mutex::new(HourKeys::new()),
            clock,
        })))
    }

    /// Keeps the known agents and the salt of visitors up to date with `db` until `stop`.
    pub async fn keep_current(&'static self, db: PgPool, stop: CancellationToken) {
        tokio::join!(self.agents.follow(db.clone(), stop.clone()), self.salts.follow(db, &self.clock, stop));
    }

    /// Adds `count` to everything that `answer` is counted as.
    fn add(&self, answer: &mut CountedResponse, count: TrafficCount) {
        let (mut key, mut outcome) = (None, VisitorOutcome { kind: None, register: None, settled: None });
        let kind = match answer.who {
            ClientIdentity::Known(kind) => {
                if kind.is_person() {
                    key = answer.page().map(|(key, _)| key);
                }
                Some(kind)
            }
            ClientIdentity::Browser(visitor) => {
                let page = answer.page();
                let deed = match &page {
                    Some((key, loads_parts)) => VisitorAction::Page { key, loads_parts: *loads_parts },
                    None if answer.purpose == FetchPurpose::Part => VisitorAction::Part,
                    None => VisitorAction::Other,
                };
                let at = ActionContext { site: &answer.site, now: &|| self.clock.now() };
                outcome = self.people.judge(visitor, &deed, count, &at);
                key = page.map(|(key, _)| key);
                if let Some(kind) = outcome.kind {
                    answer.who = ClientIdentity::Known(kind);
                }
                outcome.kind
            }
        };
        let asked = kind.map(|kind| ClientBreakdown {
            kind,
            page: key.as_deref().or_else(|| answer.is_page().then_some("")),
            is_disallowed: answer.is_disallowed,
        });
        lock(self.shard()).add(answer, count, asked.as_ref(), &outcome);
    }

    fn shard(&self) -> &Mutex<ShardCounts> {
        let thread = THREAD.with(|thread| {
            thread.get().unwrap_or_else(|| {
                let number = self.threads.fetch_add(1, Ordering::Relaxed);
                thread.set(Some(number));
                number
            })
        });
        &self.shards[thread % self.shards.len()].0
    }

    /// Takes out the counts. Visitors that are not classified yet are excluded, except at the end of a day.
    fn take(&self) -> impl Iterator<Item = ShardCounts> {
        let is_new_day = lock(&self.sent).begin(self.clock.now().as_datetime().date());
        self.settle_visitors(is_new_day);
        metrics::visitors_are_counted(self.salts.is_shared());
        self.shards.iter().map(|shard| {
            let mut counts = std::mem::replace(&mut *lock(&shard.0), ShardCounts::new(self.shards.len()));
            let mut sent = lock(&self.sent);
            for (project, tally) in &mut counts.projects {
                sent.retain_new(project, tally.visitors_mut());
            }
            counts
        })
    }

    /// Merges the counts of all threads, which belong to `hour`, within the limit of keys.
    fn collection(&self, counts: impl IntoIterator<Item = ShardCounts>, hour: Timestamp) -> CollectedTraffic {
        CollectedTraffic::from_counts(counts, hour, &mut lock(&self.hour_keys))
    }

    /// Takes out all counts at shutdown, including those of unclassified visitors.
    fn take_last(&self) -> impl Iterator<Item = ShardCounts> {
        self.settle_visitors(true);
        self.take()
    }

    /// Counts the visitors that waited long enough, or all of them if `is_end`.
    fn settle_visitors(&self, is_end: bool) {
        let settled = self.people.settle(self.clock.now(), is_end);
        // In small chunks, because requests being served contend for this lock.
        for some in settled.chunks(limits::SETTLED_BATCH) {
            let mut counts = lock(self.shard());
            for (kind, settled) in some {
                counts.add_settled(*kind, settled);
            }
        }
    }
}

/// Returns a path as it is counted: truncated if it is too long.
fn truncate_path(path: &str) -> Cow<'_, str> {
    if path.len() <= limits::COUNTED_PATH_BYTES {
        return path.into();
    }
    let end = path.floor_char_boundary(limits::COUNTED_PATH_BYTES - '…'.len_utf8());
    format!("{}…", &path[..end]).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
