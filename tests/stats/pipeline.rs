//! The way from the edge to Postgres: nothing twice, nothing lost when an edge is stopped or Postgres is away.

use super::*;
use crate::{BACKGROUND, metrics::Page, stubs::latency, world::ports};

/// All numbers of the tables, as one text.
async fn sums(world: &World) -> String {
    world
        .sql_text(
            "SELECT concat((SELECT json_agg(h ORDER BY hour, project_id)::text FROM traffic_hours AS h), E'\n',
                           (SELECT json_agg(e ORDER BY hour, project_id, kind, key)::text FROM traffic_hour_entries AS e))",
        )
        .await
}

#[tokio::test]
async fn a_batch_that_arrives_twice_changes_nothing() {
    let visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 7).await;
    visited.live_with(7).await;
    let before = sums(&visited.world).await;
    let last = visited.world.sql_number("SELECT last_batch FROM traffic_edges").await;
    assert!(last > 0);
    let again = |edge: &str, batch: i64| {
        format!(
            "SELECT record_traffic({edge}, {batch}, ARRAY[now()], ARRAY[id], ARRAY[5,5,5,5,5,5,5,5,5]::bigint[],
                 ARRAY[1], ARRAY['path'], ARRAY['/'], ARRAY[5]::bigint[], ARRAY[5]::bigint[])::text
             FROM projects WHERE name = 'engine'"
        )
    };
    for batch in 1..=last {
        let repeated = again("(SELECT edge_id FROM traffic_edges)", batch);
        assert_eq!(visited.world.sql_text(&repeated).await, "false", "batch {batch}");
    }
    assert_eq!(sums(&visited.world).await, before);
    // Of another edge it is another batch.
    assert_eq!(visited.world.sql_text(&again("'another'", 1)).await, "true");
    assert_eq!(visited.world.sql_text(&again("'another'", 1)).await, "false");
    visited.live_with(12).await;
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
        visited.live_with_within(round * 20, BACKGROUND).await;
        visited.world.restart_edge(0).await;
    }
}

#[tokio::test]
async fn an_edge_that_is_killed_loses_no_more_than_its_last_moments() {
    let mut visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 10).await;
    visited.live_with(10).await;
    visited.world.edges[0].process.kill();
    visited.world.restart_edge(0).await;
    // Its successor is another edge, and its first batch no repetition.
    visited.visit("/", 3).await;
    let live = visited.live_with(13).await;
    assert_eq!(live["top_paths"][0]["requests"], 13);
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
    visited.live_with(3).await;
    visited.world.stop_postgres().await;
    for _ in 0..3 {
        visited.visit("/about", 10).await;
        visited.visit("/missing", 2).await;
        // Longer than from one collection to the next.
        latency(Duration::from_millis(2_500)).await;
    }
    assert!(Page::of(port).await.sum("svc_traffic_waiting") > 0.5);
    visited.world.start_postgres().await;
    let live = visited.live_with_within(39, BACKGROUND).await;
    assert_eq!(live["top_paths"][0]["path"], "/about");
    assert_eq!(live["top_paths"][0]["requests"], 33);
    assert_eq!(live["status"]["4xx"], 6);
    eventually(BACKGROUND, "nothing waits any more", async || Page::of(port).await.sum("svc_traffic_waiting") < 0.5)
        .await;
    let page = Page::of(port).await;
    assert!(page.text.contains("svc_traffic_dropped_total{why=\"room\"} 0"), "{}", page.text);
    // And nothing twice.
    latency(Duration::from_millis(2_500)).await;
    visited.live_with(39).await;
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
