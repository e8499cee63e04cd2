//! The way from the edge to Postgres: nothing twice, nothing lost when an edge is stopped or killed or Postgres is away.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt as _, stream};

use super::*;
use crate::{BACKGROUND, metrics::Page, stubs::latency, world::ports};

/// Longer than from one collection to the next.
pub(super) const COLLECTED_WITHIN: Duration = Duration::from_millis(2_500);
/// Bytes of waiting batches that an edge keeps in memory, at most.
const QUEUED_BYTES: u64 = 8 * 1024 * 1024;

/// The keys of the hours and of what is not added to them yet, as a table of `kind`, `key` and `requests`.
pub(super) const ENTRIES: &str = "(SELECT kind, key, requests FROM traffic_hour_entries
                        UNION ALL
                        SELECT e.kind, e.key, e.requests
                        FROM traffic_recent, unnest(kinds, keys, requests) AS e (kind, key, requests)) AS entries";

/// The requests that Postgres has.
pub(super) async fn recorded(world: &World) -> i64 {
    world
        .sql_number(
            "SELECT (coalesce((SELECT sum(requests) FROM traffic_hours), 0)
                     + coalesce((SELECT sum(sums[1]) FROM traffic_recent), 0))::bigint",
        )
        .await
}

/// Waits until Postgres has so many requests, and looks that it has no more.
async fn recorded_with(world: &World, requests: usize) {
    let requests = i64::try_from(requests).unwrap();
    let mut last = -1;
    let is_there = holds_within(BACKGROUND, async || {
        last = recorded(world).await;
        last >= requests
    })
    .await;
    assert!(is_there && last == requests, "{last} requests instead of {requests}");
}

/// The requests that Postgres has for each path.
async fn paths(world: &World) -> BTreeMap<String, u64> {
    let found = format!(
        "SELECT coalesce(json_object_agg(key, requests), '{{}}')::text
         FROM (SELECT key, sum(requests) AS requests FROM {ENTRIES} WHERE kind = 'path' GROUP BY key) AS paths"
    );
    serde_json::from_str(&world.sql_text(&found).await).unwrap()
}

/// The journals in the edges' spool.
pub(super) fn journals(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.folder().join("spool")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "traffic")).collect()
}

/// The edge that wrote a journal.
fn owner(journal: &Path) -> String {
    journal.file_stem().unwrap().to_str().unwrap().rsplit_once('-').unwrap().0.to_owned()
}

/// Visits a path at an edge so often.
async fn visit_at(visited: &Visited, edge: usize, path: &str, times: usize) {
    for _ in 0..times {
        visited.world.edges[edge].get(&format!("{}{path}", visited.url)).await;
    }
}

#[tokio::test]
async fn a_batch_that_arrives_twice_changes_nothing() {
    let site = Site::page("home").file("about.html", "about");
    let mut visited = Visited::start_with(&site, |builder| builder.edges(3)).await;
    for edge in 0..3 {
        visit_at(&visited, edge, "/", 2).await;
    }
    recorded_with(&visited.world, 6).await;
    visited.world.stop_postgres().await;
    for round in 1..=2 {
        for edge in 0..3 {
            visit_at(&visited, edge, "/about", round).await;
        }
        latency(COLLECTED_WITHIN).await;
    }
    let sent: Vec<(PathBuf, String)> =
        journals(&visited.world).into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    assert_eq!(sent.len(), 3, "{sent:?}");
    visited.world.start_postgres().await;
    recorded_with(&visited.world, 15).await;
    let before = paths(&visited.world).await;
    assert_eq!(before, [("/".into(), 6), ("/about".into(), 9)].into());

    // Two die with journals of which Postgres has all; then their journals come back, as if the heir had died in the middle.
    visited.world.edges[..2].iter_mut().for_each(|edge| edge.process.kill());
    for round in 0..3 {
        eventually(BACKGROUND, "the heir has sent it", async || journals(&visited.world).len() == 1).await;
        recorded_with(&visited.world, 15).await;
        assert_eq!(paths(&visited.world).await, before);
        let alive = owner(&journals(&visited.world)[0]);
        let log = visited.world.edges[2].process.log();
        let adopted = log.matches("sending the traffic of an edge that died").count();
        assert!(adopted >= 2 * (round + 1), "{adopted} journals");
        for (path, lines) in sent.iter().filter(|(path, _)| owner(path) != alive) {
            fs::write(path, lines).unwrap();
        }
    }
    eventually(BACKGROUND, "the heir has sent it", async || journals(&visited.world).len() == 1).await;
    // A copy has the batches that Postgres has had, whatever it is called.
    let alive = owner(&journals(&visited.world)[0]);
    let (path, lines) = sent.iter().find(|(path, _)| owner(path) != alive).unwrap();
    let stranger = path.with_file_name("stranger-00000000.traffic");
    fs::write(&stranger, lines).unwrap();
    eventually(BACKGROUND, "the heir has sent it", async || !stranger.exists()).await;
    recorded_with(&visited.world, 15).await;
    // Of an edge that Postgres has not heard of, they are other batches; an earlier version wrote neither owners nor seals.
    let is_older = |line: &&str| !line.starts_with("{\"owner\"") && !line.starts_with("{\"seal\"");
    let older: String = lines.split_inclusive('\n').filter(is_older).collect();
    // One line is damaged, and costs itself alone.
    fs::write(&stranger, format!("{older}{{\"batch\":9,\n")).unwrap();
    recorded_with(&visited.world, 15 + 5).await;
    let log = visited.world.edges[2].process.log();
    assert!(log.contains("a file in the spool is damaged") && log.contains("lost=1"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_stopped_loses_nothing() {
    let mut visited = Visited::start_with(&Site::page("home"), |builder| builder.edges(2)).await;
    for round in 1..=3 {
        visited.visit("/", 20).await;
        let edge = &mut visited.world.edges[0].process;
        let status = tokio::task::block_in_place(|| edge.stop());
        assert!(status.success(), "{status}");
        // What it had is there when it has ended.
        recorded_with(&visited.world, round * 20).await;
        visited.world.restart_edge(0).await;
    }
}

#[tokio::test]
async fn an_edge_that_is_killed_loses_no_more_than_its_last_moments() {
    let mut visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 10).await;
    recorded_with(&visited.world, 10).await;
    visited.world.edges[0].process.kill();
    visited.world.restart_edge(0).await;
    // Its successor is another edge, and its first batch no repetition.
    visited.visit("/", 3).await;
    recorded_with(&visited.world, 13).await;
    assert_eq!(paths(&visited.world).await, [("/".into(), 13)].into());
    assert_eq!(visited.world.sql_number("SELECT count(*) FROM traffic_edges").await, 2);
}

#[tokio::test]
async fn what_is_counted_while_postgres_is_away_is_written_when_it_is_back() {
    let port = ports::free();
    let visited = Visited::start_with(&Site::page("home").file("about.html", "about"), |builder| {
        builder.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
    })
    .await;
    visited.visit("/about", 3).await;
    recorded_with(&visited.world, 3).await;
    visited.world.stop_postgres().await;
    for _ in 0..3 {
        visited.visit("/about", 10).await;
        visited.visit("/missing.txt", 2).await;
        latency(COLLECTED_WITHIN).await;
    }
    assert!(Page::of(port).await.sum("svc_traffic_waiting") > 0.5);
    visited.world.start_postgres().await;
    recorded_with(&visited.world, 39).await;
    assert_eq!(paths(&visited.world).await, [("/about".into(), 33)].into());
    eventually(BACKGROUND, "nothing waits any more", async || Page::of(port).await.sum("svc_traffic_waiting") < 0.5)
        .await;
    let page = Page::of(port).await;
    assert!(page.text.contains("svc_traffic_dropped_total{why=\"room\"} 0"), "{}", page.text);
    // And nothing twice.
    latency(COLLECTED_WITHIN).await;
    recorded_with(&visited.world, 39).await;
}

#[tokio::test]
async fn what_an_edge_has_collected_outlives_it_while_postgres_is_away() {
    let site = Site::page("home").file("about.html", "about");
    let mut visited = Visited::start_with(&site, |builder| builder.edges(3)).await;
    for edge in 0..3 {
        visit_at(&visited, edge, "/", 1).await;
    }
    recorded_with(&visited.world, 3).await;
    visited.world.stop_postgres().await;
    visit_at(&visited, 0, "/about", 10).await;
    latency(COLLECTED_WITHIN).await;
    visit_at(&visited, 0, "/about", 7).await;
    visit_at(&visited, 1, "/", 5).await;
    latency(COLLECTED_WITHIN).await;
    visited.world.edges[0].process.kill();
    visit_at(&visited, 1, "/about", 4).await;
    visit_at(&visited, 2, "/about", 2).await;
    latency(COLLECTED_WITHIN).await;
    visited.world.edges[1].process.kill();
    assert_eq!(journaling_edges(&visited), 3, "nobody deletes what Postgres does not have");
    visited.world.start_postgres().await;
    recorded_with(&visited.world, 3 + 10 + 7 + 5 + 4 + 2).await;
    assert_eq!(paths(&visited.world).await, [("/".into(), 8), ("/about".into(), 23)].into());
    eventually(BACKGROUND, "one journal is left", async || journaling_edges(&visited) == 1).await;
    recorded_with(&visited.world, 31).await;
}

/// The edges whose journals are there.
fn journaling_edges(visited: &Visited) -> usize {
    journals(&visited.world).iter().map(|path| owner(path)).collect::<std::collections::BTreeSet<_>>().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_more_than_memory_waits_on_disk() {
    // Few enough of a project and of a person for an hour: no path is counted with others.
    const PATHS_OF_PROJECT: usize = 960;
    const PROJECTS_OF_PERSON: usize = 5;
    const ROUNDS: usize = 10;
    const PATHS: usize = ROUNDS * PROJECTS_OF_PERSON * PATHS_OF_PROJECT;
    const MOST_GROWTH: u64 = 96 * 1024 * 1024;
    let port = ports::free();
    let site = Site::page("home").file("_redirects", "/old/* /new 301\n");
    let visited = Visited::start_with(&site, |builder| {
        builder.plan(&serde_json::json!({})).set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
    })
    .await;
    let mut persons = Vec::new();
    for person in 0..ROUNDS {
        let (actor, mut urls) = (visited.world.user(&format!("person-{person}")).await, Vec::new());
        for number in 0..PROJECTS_OF_PERSON {
            urls.push(actor.publish(&format!("site-{person}-{number}"), &site).await.url);
        }
        persons.push(urls);
    }
    visited.visit("/", 1).await;
    let edge = visited.world.edge();
    // Each is in the edge's memory before Postgres is away.
    for url in persons.iter().flatten() {
        edge.get(&format!("{url}/old/x")).await.assert_status(301);
    }
    let begun = 1 + ROUNDS * PROJECTS_OF_PERSON;
    recorded_with(&visited.world, begun).await;
    visited.world.stop_postgres().await;
    let before = edge.process.memory("VmRSS");
    let long = "x".repeat(240);
    for (round, urls) in persons.iter().enumerate() {
        let visits = urls.iter().enumerate().flat_map(|(place, url)| {
            (0..PATHS_OF_PROJECT).map(move |number| (url, format!("{round}-{place}-{number}")))
        });
        stream::iter(visits)
            .map(|(url, path)| edge.get(&format!("{url}/old/{long}{path}")))
            .for_each_concurrent(64, async |visit| {
                visit.await.assert_status(301);
            })
            .await;
        latency(COLLECTED_WITHIN).await;
    }
    let grown = edge.process.memory("VmRSS").saturating_sub(before);
    let on_disk: u64 = journals(&visited.world).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(grown < MOST_GROWTH, "{grown} bytes of memory");
    assert!(on_disk > QUEUED_BYTES + QUEUED_BYTES / 2, "{on_disk} bytes on disk");

    visited.world.start_postgres().await;
    recorded_with(&visited.world, PATHS + begun).await;
    // The sums come with the first batch of a collection, paths with all of them.
    // Beside them `/` and `/old/x`.
    eventually(BACKGROUND, "each path", async || paths(&visited.world).await.len() > PATHS + 1).await;
    assert_eq!(paths(&visited.world).await.len(), PATHS + 2, "each path");
    eventually(BACKGROUND, "nothing waits any more", async || Page::of(port).await.sum("svc_traffic_waiting") < 0.5)
        .await;
    let page = Page::of(port).await;
    assert!(page.sum("svc_traffic_dropped_total") < 0.5, "{}", page.text);
    let left: u64 = journals(&visited.world).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(left <= QUEUED_BYTES, "{left} bytes are left");
}

#[tokio::test]
async fn where_the_disk_fails_memory_goes_on() {
    let port = ports::free();
    let visited = Visited::start_with(&Site::page("home"), |builder| {
        builder.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
    })
    .await;
    // What every user may write to is not believed, and not used.
    let spool = visited.world.folder().join("spool");
    fs::create_dir_all(&spool).unwrap();
    fs::set_permissions(&spool, fs::Permissions::from_mode(0o777)).unwrap();
    visited.visit("/", 5).await;
    recorded_with(&visited.world, 5).await;
    visited.world.stop_postgres().await;
    for _ in 0..2 {
        visited.visit("/", 10).await;
        latency(COLLECTED_WITHIN).await;
    }
    visited.world.start_postgres().await;
    recorded_with(&visited.world, 25).await;
    let page = Page::of(port).await;
    assert!(page.sum("svc_traffic_journal_errors_total") > 1.5, "{}", page.text);
    assert!(page.sum("svc_traffic_dropped_total") < 0.5, "{}", page.text);
    assert_eq!(journals(&visited.world), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn nothing_is_counted_where_the_source_is_none() {
    let visited = Visited::start_with(&Site::page("home"), |builder| builder.set("STATS__SOURCE", "none")).await;
    visited.visit("/", 5).await;
    for path in ["/projects/engine/stats", "/projects/engine/stats/history"] {
        visited.ada.get(path).await.assert_error(503, "stats_unavailable");
        visited.ada.get("/projects/another/stats").await.assert_error(404, "not_found");
    }
    latency(Duration::from_secs(3)).await;
    assert_eq!(visited.world.sql_number("SELECT count(*) FROM traffic_hours").await, 0);
}

#[tokio::test]
async fn a_file_of_countries_that_is_none_is_said_at_the_start() {
    let world = World::start().await;
    let file = world.folder().join("countries.mmdb");
    std::fs::write(&file, "no database").unwrap();
    let mut command = tokio::process::Command::new(crate::world::process::program("edge"));
    command.env("SVC__STATS__GEOIP_FILE", &file).env("SVC__SECRETS__MASTER_KEY_FILE", World::master_key().await);
    for listener in ["LISTEN_HTTP", "LISTEN_HTTPS"] {
        command.env(format!("SVC__EDGE__{listener}"), format!("127.0.0.1:{}", ports::free()));
    }
    command.env("SVC__EDGE__SPOOL", world.folder().join("another-spool"));
    let output = tokio::time::timeout(BACKGROUND, command.kill_on_drop(true).output()).await.unwrap().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("stats.geoip_file"), "{output:?}");
}
