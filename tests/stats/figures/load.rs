//! What much traffic costs PostgreSQL.

use std::{collections::HashMap, time::Instant};

use super::*;
use crate::stubs::latency;
use db::stats::traffic;
use domain::{
    Clock,
    traffic::{
        AgentKey, ErrorKey, HourTraffic, TrafficCount, TrafficEntry, TrafficEntryKind, TrafficSums, ViewKey,
        hour_start,
        sketch::SketchRegister,
        visitors::{ClassEvidence, VisitorClass},
    },
};

/// Requests a second of all edges together, and what they are of.
const REQUESTS: usize = 10_000;
const PROJECTS: usize = 1_000;
const EDGES: usize = 3;
/// The interval at which an edge sends what it counted, and the most keys that it sends in one batch.
const COLLECT_EVERY: Duration = Duration::from_secs(2);
const BATCH_KEYS: usize = 2_000;
/// The duration. Batches are added to the hours once a minute.
const MINUTES: u64 = 3;
/// What visitors do: the pages of a site, the hosts and countries they come from, and one visitor in so many requests.
const PATHS: u32 = 1_000;
const REFERRERS: u32 = 50;
const COUNTRIES: u32 = 40;
const AGENTS: u32 = 30;
const REQUESTS_OF_A_VISITOR: usize = 10;

/// What was counted of a project.
#[derive(Default)]
struct Counted {
    sums: TrafficSums,
    entries: HashMap<(TrafficEntryKind, String), TrafficCount>,
    visitors: Vec<SketchRegister>,
}

/// Chooses what is asked for.
struct Visits {
    dice: Dice,
    projects: Zipf,
    paths: Zipf,
    referrers: Zipf,
    countries: Zipf,
    agents: Zipf,
}

impl Visits {
    /// Returns what an edge counts of so many requests.
    fn count(&mut self, ids: &[ProjectId], requests: usize) -> Vec<HourTraffic> {
        let hour = hour_start(Clock::system().now());
        let mut counted: HashMap<usize, Counted> = HashMap::new();
        for number in 0..requests {
            let project = self.projects.pick(&mut self.dice);
            let Counted { sums, entries, visitors } = counted.entry(project).or_default();
            let path = format!("/articles/{}/index", self.paths.pick(&mut self.dice));
            let country = format!("C{}", self.countries.pick(&mut self.dice));
            let hostname = format!("site{project}.example");
            let one = TrafficCount { requests: 1, bytes: 12_000 };
            let mut add = |kind, key: String| entries.entry((kind, key)).or_default().add(one);
            let place = self.dice.roll();
            // Of twenty requests one finds nothing, six are of agents, three are of pages that people view.
            let person = place > 0.3;
            let (class, agent) = if person {
                (VisitorClass::Person, String::new())
            } else {
                (VisitorClass::AiTraining, format!("Agent{}", self.agents.pick(&mut self.dice)))
            };
            add(
                TrafficEntryKind::Agent,
                AgentKey { class, agent: &agent, evidence: ClassEvidence::Behaviour }.encode(),
            );
            add(TrafficEntryKind::Hostname, hostname.clone());
            add(TrafficEntryKind::Country, country.clone());
            if place > 0.95 {
                add(TrafficEntryKind::Error, ErrorKey { status: 404, path: &path, referrer: "" }.encode());
            } else {
                add(TrafficEntryKind::Path, path.clone());
            }
            if (0.3..0.45).contains(&place) {
                let referrer = match self.referrers.pick(&mut self.dice) {
                    0 => String::new(),
                    host => format!("host{host}.example"),
                };
                let view = ViewKey { path: &path, referrer: &referrer, country: &country, hostname: &hostname };
                add(TrafficEntryKind::View, view.encode());
                sums.pageviews += 1;
            }
            if !person {
                add(TrafficEntryKind::AgentPage, agent);
            }
            if number % REQUESTS_OF_A_VISITOR == 0 {
                visitors.push(SketchRegister::from_hash(self.dice.bits()));
            }
            sums.requests += 1;
            sums.bytes += one.bytes;
            sums.cache_hits += 1;
            sums.statuses[0] += 1;
            sums.people_bytes += if person { one.bytes } else { 0 };
        }
        let parts = counted.into_iter().map(|(project, Counted { sums, entries, visitors })| {
            let entries = entries.into_iter().map(|((kind, key), count)| TrafficEntry { kind, key: key.into(), count });
            HourTraffic { hour, project: ids[project].clone(), sums, entries: entries.collect(), visitors }
        });
        parts.collect()
    }
}

/// Sends what an edge counts, as often as it does, and returns the longest time that a collection took to be there.
async fn send(db: PgPool, ids: Vec<ProjectId>, number: usize, end: Instant) -> Duration {
    let mut visits = Visits {
        dice: Dice(u64::try_from(number).unwrap()),
        projects: Zipf::new(PROJECTS.try_into().unwrap()),
        paths: Zipf::new(PATHS),
        referrers: Zipf::new(REFERRERS),
        countries: Zipf::new(COUNTRIES),
        agents: Zipf::new(AGENTS),
    };
    let (edge, mut batch, mut longest) = (format!("edge{number}"), 0, Duration::ZERO);
    let mut next = Instant::now();
    while next < end {
        let requests = REQUESTS / EDGES * usize::try_from(COLLECT_EVERY.as_secs()).unwrap();
        let mut counted = visits.count(&ids, requests);
        next += COLLECT_EVERY;
        latency(next.saturating_duration_since(Instant::now())).await;
        let start = Instant::now();
        while !counted.is_empty() {
            let mut keys = 0;
            let fitting = counted.iter().take_while(|part| {
                keys += part.entries.len();
                keys <= BATCH_KEYS
            });
            let fitting = fitting.count().max(1);
            let rest = counted.split_off(fitting);
            batch += 1;
            assert!(traffic::record(&db, &edge, batch, &counted).await.unwrap());
            counted = rest;
        }
        longest = longest.max(start.elapsed());
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only statistics`"]
async fn much_traffic() {
    let world = World::start().await;
    world.user("ada").await;
    let ids = projects(&world, PROJECTS).await;
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let wal = async || -> i64 {
        let written = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        sqlx::query_scalar(written).fetch_one(&db).await.unwrap()
    };
    let (before, written) = (spent(&db).await, wal().await);
    let start = Instant::now();
    let end = start + Duration::from_mins(MINUTES);
    let edges = (0..EDGES).map(|number| tokio::spawn(send(db.clone(), ids.clone(), number, end)));
    let longest = futures_util::future::try_join_all(edges).await.unwrap().into_iter().max().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let share = spent(&db).await.saturating_sub(before).as_secs_f64() / seconds * 100.0;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let wal = (wal().await - written) as f64 / seconds / 1e6;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM traffic_hour_entries").fetch_one(&db).await.unwrap();
    let waiting: i64 = sqlx::query_scalar("SELECT count(*) FROM traffic_recent").fetch_one(&db).await.unwrap();
    print(&format!(
        "| {REQUESTS} | {PROJECTS} | {EDGES} | {share:.1} | {wal:.2} | {:.0} | {rows} | {waiting} |",
        longest.as_secs_f64() * 1e3
    ));
}
