//! Visitors as they are counted, against the truth.

use std::hash::{BuildHasher as _, RandomState};

use db::stats::{traffic, upkeep};
use domain::{
    Clock,
    month::midnight,
    traffic::{
        HourTraffic, TrafficSums, hour_start,
        sketch::{SketchRegister, VisitorSketch},
    },
};

use super::*;

/// Days of a site with so many visitors, each with a salt of its own.
const DAYS: usize = 20;
/// Edges that a visitor may reach.
const EDGES: u64 = 3;

/// Sends the visitors of a day through PostgreSQL, as three edges see them, and returns what its row says.
async fn counted(db: &PgPool, project: &ProjectId, truth: u64, number: i64) -> i64 {
    let salt = RandomState::new();
    let yesterday = hour_start(Clock::system().now()) - Duration::from_hours(24);
    for edge in 0..EDGES {
        // An edge sends what changes its own sketch. Every other visitor reaches all of them.
        let mut sketch = VisitorSketch::default();
        let seen = (0..truth).filter(|visitor| visitor % 2 == 0 || visitor % EDGES == edge);
        let registers = seen.map(|visitor| SketchRegister::from_hash(salt.hash_one(visitor)));
        let visitors: Vec<SketchRegister> = registers.filter(|register| sketch.add(*register)).collect();
        let sums = TrafficSums { requests: 1, ..TrafficSums::default() };
        let part = HourTraffic { hour: yesterday, project: project.clone(), sums, entries: Vec::new(), visitors };
        assert!(traffic::record(db, &format!("edge{edge}"), number, &[part]).await.unwrap());
    }
    while upkeep::fold(db, 1_000, 0, 1).await.unwrap() > 0 {}
    let today = midnight(Clock::system().now().as_datetime().date());
    while upkeep::roll(db, today, 100).await.unwrap() > 0 {}
    let of_day = "SELECT visitors FROM traffic_days WHERE project_id = $1";
    sqlx::query_scalar(of_day).bind(project.as_str()).fetch_one(db).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only visitors`"]
async fn visitors_of_a_day() {
    let mut world = World::start().await;
    // What jobs do is done here.
    world.admin.kill();
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let truths = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
    world.user("ada").await;
    let ids = projects(&world, DAYS * truths.len()).await;
    for (truth, ids) in truths.into_iter().zip(ids.chunks(DAYS)) {
        let mut errors = Vec::new();
        for (number, id) in (1..).zip(ids) {
            let number = number + i64::try_from(truth).unwrap() * 100;
            let counted = counted(&db, id, truth, number).await;
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            errors.push((counted as f64 - truth as f64).abs() / truth as f64 * 100.0);
        }
        errors.sort_by(f64::total_cmp);
        let within = errors.iter().filter(|error| **error <= 2.0).count();
        print(&format!("| {truth} | {:.2} | {:.2} | {within} of {DAYS} |", errors[DAYS / 2], errors[DAYS - 1]));
    }
}
