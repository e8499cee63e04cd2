//! Scans: made-up paths by the hundred thousand push no page out, and take no more room than there is for them.

use futures_util::{StreamExt as _, stream};

use super::*;
use crate::BACKGROUND;

const MADE_UP: usize = 100_000;
const AT_ONCE: usize = 64;
/// Rows of made-up paths that an hour may have: the bound, and `(other)`.
const MOST_ROWS: i64 = 1_000 + 1;
/// Memory that a scan may take, beside what any visitors take.
const MOST_GROWTH: u64 = 64 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_pushes_no_page_out() {
    let visited = Visited::start(&Site::page("home").file("about.html", "about").file("404.html", "no")).await;
    visited.visit("/", 30).await;
    let edge = visited.world.edge();
    scan(&visited, 0..5_000).await;
    let before = edge.process.memory("VmRSS");
    scan(&visited, 5_000..MADE_UP / 2).await;
    visited.visit("/about", 20).await;
    scan(&visited, MADE_UP / 2..MADE_UP).await;
    let grown = edge.process.memory("VmRSS").saturating_sub(before);
    assert!(grown < MOST_GROWTH, "{grown} bytes");

    let live = visited.live_with_within(MADE_UP + 50, BACKGROUND).await;
    assert_eq!(live["status"]["4xx"], MADE_UP);
    assert_eq!(
        live["top_paths"],
        serde_json::json!([
            { "path": "/", "requests": 30, "bytes": 30 * "home".len() },
            { "path": "/about", "requests": 20, "bytes": 20 * "about".len() },
        ])
    );
    assert_eq!(live["truncated"], false, "no list that is shown lacks an entry");
    fold(&visited.world).await;
    let missing = "FROM traffic_hour_entries WHERE kind = 'error'";
    let most = format!("SELECT max(n) FROM (SELECT count(*) AS n {missing} GROUP BY hour) AS h");
    let rows = visited.world.sql_number(&most).await;
    assert!(rows <= MOST_ROWS, "{rows} rows");
    let counted = visited.world.sql_number(&format!("SELECT sum(requests)::bigint {missing}")).await;
    assert_eq!(usize::try_from(counted).unwrap(), MADE_UP, "the rest is (other)");
}

async fn scan(visited: &Visited, numbers: std::ops::Range<usize>) {
    let edge = visited.world.edge();
    stream::iter(numbers)
        .map(|number| edge.get(&format!("{}/made-up/{number}", visited.url)))
        .for_each_concurrent(AT_ONCE, async |visit| {
            visit.await.assert_status(404);
        })
        .await;
}

#[tokio::test]
async fn a_list_with_too_many_entries_says_so() {
    let visited = Visited::start(&Site::page("home").file("about.html", "about")).await;
    visited.visit("/", 3).await;
    visited.live_with(3).await;
    fold(&visited.world).await;
    // As if as many paths as there is room for had been seen within this hour and the next.
    visited
        .world
        .sql(
            "INSERT INTO traffic_hours SELECT hour + interval '1 hour', project_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
             FROM traffic_hours;
             UPDATE traffic_hours SET paths = 2000",
        )
        .await;
    visited.visit("/about", 2).await;
    visited.visit("/", 1).await;
    visited.live_with(6).await;
    fold(&visited.world).await;
    let live = visited.live().await;
    assert_eq!(live["truncated"], true);
    assert_eq!(live["top_paths"].as_array().unwrap().len(), 1, "{live:#}");
    assert_eq!(live["totals"]["requests"], 6);
}
