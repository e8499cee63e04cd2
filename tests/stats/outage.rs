//! Ten minutes without Postgres, under load, and an edge that dies meanwhile: nothing that was collected is lost.

use std::time::Instant;

use futures_util::future::join_all;

use super::{
    pipeline::{COLLECTED_WITHIN, journals, recorded},
    *,
};
use crate::stubs::latency;

/// Time for which Postgres is away.
const AWAY: Duration = Duration::from_mins(10);
/// Requests that each edge has at a time.
const AT_ONCE: usize = 16;
/// Pause between two rounds of requests: whoever asks shares the machine.
const PAUSE: Duration = Duration::from_millis(50);
/// Distinct paths.
const PATHS: usize = 20_000;
/// Longest time for everything to be written once Postgres is back.
const WRITTEN_WITHIN: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes eleven minutes; a measurement, made by `bench/run --only outage`"]
async fn ten_minutes_without_postgres() {
    let site = Site::page("home").file("_redirects", "/old/* /new 301\n");
    let mut visited = Visited::start_with(&site, |builder| builder.edges(3)).await;
    let (start, mut visits) = (Instant::now(), 0);
    visits += round(&visited, visits).await;
    latency(COLLECTED_WITHIN).await;
    visited.world.stop_postgres().await;
    let mut most_memory = 0;
    while start.elapsed() < AWAY {
        visits += round(&visited, visits).await;
        let memory = visited.world.edges.iter().map(|edge| edge.process.memory("VmRSS")).max();
        most_memory = most_memory.max(memory.unwrap_or_default());
        if start.elapsed() > AWAY / 2 && visited.world.edges.len() == 3 {
            latency(COLLECTED_WITHIN).await;
            // Dropped, it is killed.
            visited.world.edges.pop();
        }
        latency(PAUSE).await;
    }
    let on_disk: u64 = journals(&visited.world).iter().map(|path| path.metadata().unwrap().len()).sum();
    visited.world.start_postgres().await;
    let back = Instant::now();
    let wanted = i64::try_from(visits).unwrap();
    let is_there = holds_within(WRITTEN_WITHIN, async || recorded(&visited.world).await >= wanted).await;
    let (written, seconds) = (recorded(&visited.world).await, back.elapsed().as_secs_f64());
    assert!(is_there && written == wanted, "{written} of {wanted} requests");
    print(&format!(
        "| {} | {visits} | {:.0} | {:.0} | {seconds:.1} | {} |",
        AWAY.as_secs(),
        mb(on_disk),
        mb(most_memory),
        wanted - written,
    ));
}

/// A request to each edge, some at a time. Returns their number.
async fn round(visited: &Visited, first: usize) -> usize {
    let paths = (first..).map(|number| format!("{}/old/{}", visited.url, number % PATHS));
    let edges = visited.world.edges.iter().cycle().take(AT_ONCE * visited.world.edges.len());
    let visits = edges.zip(paths).map(async |(edge, path)| edge.get(&path).await.assert_status(301));
    join_all(visits).await.len()
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}

#[expect(clippy::print_stdout, reason = "it is read by the bench")]
fn print(row: &str) {
    println!("{row}");
}
