//! Traffic that an edge holds before Postgres gets it: few rows while nobody looks, fresh reports for whoever does, and nothing lost.

use sqlx::{Connection as _, PgConnection};

use super::{
    pipeline::{COLLECTED_WITHIN, journals, recorded},
    *,
};
use crate::{BACKGROUND, stubs::latency};

/// Rounds of visits, a collection of the edge apart.
const ROUNDS: usize = 4;

/// A site whose edges hold traffic for `seconds`, one visit of which Postgres already has: the first is sent immediately.
async fn holding(seconds: u32) -> Visited {
    let hold = |builder: Builder| builder.edges(2).variable("SVC__STATS__SEND_SECONDS", seconds);
    let visited = Visited::start_with(&Site::page("home"), hold).await;
    for edge in &visited.world.edges {
        edge.get(&visited.url).await;
    }
    eventually(BACKGROUND, "the first visits are sent", async || recorded(&visited.world).await == 2).await;
    visited
}

#[tokio::test]
async fn a_report_shows_what_edges_hold() {
    let visited = holding(600).await;
    for _ in 0..ROUNDS {
        visited.visit("/", 5).await;
        latency(COLLECTED_WITHIN).await;
    }
    assert_eq!(recorded(&visited.world).await, 2, "nobody has looked");
    // One look shows everything.
    let live = visited.live().await;
    assert_eq!(live["totals"]["requests"], 2 + 5 * ROUNDS, "{live:#}");
    let rows = visited.world.sql_number("SELECT count(*) FROM traffic_recent").await;
    assert!(rows <= 3, "{rows} rows for {ROUNDS} collections");
}

/// The visits that Postgres has of a site.
async fn recorded_of(visited: &Visited, project: &str) -> i64 {
    let id = format!("(SELECT id FROM projects WHERE name = '{project}')");
    visited
        .world
        .sql_number(&format!(
            "SELECT (coalesce((SELECT sum(requests) FROM traffic_hours WHERE project_id = {id}), 0)
                     + coalesce((SELECT sum(sums[1]) FROM traffic_recent WHERE project_id = {id}), 0))::bigint"
        ))
        .await
}

#[tokio::test]
async fn a_look_at_one_site_leaves_the_others_held_and_each_visit_counts_once() {
    let mut visited = holding(600).await;
    let other = visited.ada.publish("other", &Site::page("other")).await.url;
    for _ in 0..2 {
        visited.visit("/", 5).await;
        for _ in 0..3 {
            visited.world.edge().get(&other).await;
        }
        latency(COLLECTED_WITHIN).await;
        // The second look sends what has come since the first.
        visited.live().await;
    }
    assert_eq!(visited.live().await["totals"]["requests"], 12);
    assert_eq!((recorded_of(&visited, "engine").await, recorded_of(&visited, "other").await), (12, 0));
    // The journal still has all of it; what was sent ahead is not sent again.
    visited.world.edges[0].process.kill();
    eventually(BACKGROUND, "the rest is sent", async || recorded_of(&visited, "other").await == 6).await;
    assert_eq!(recorded_of(&visited, "engine").await, 12);
    let live = visited.ada.get("/projects/other/stats").await.ok();
    assert_eq!(live["totals"]["requests"], 6, "{live:#}");
}

#[tokio::test]
async fn what_was_on_its_way_ahead_when_its_edge_died_is_counted_once() {
    let mut visited = holding(600).await;
    visited.visit("/", 5).await;
    latency(COLLECTED_WITHIN).await;
    // Postgres is at work on what is sent ahead until this test lets it go on.
    let mut gate = PgConnection::connect(visited.world.database.as_str()).await.unwrap();
    sqlx::raw_sql("SELECT pg_advisory_lock(1)").execute(&mut gate).await.unwrap();
    visited
        .world
        .sql(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_advisory_lock_shared(1); PERFORM pg_advisory_unlock_shared(1); RETURN NULL; END $$;
             CREATE TRIGGER wait AFTER INSERT ON traffic_edges FOR EACH ROW
                 WHEN (NEW.edge_id LIKE '%:%') EXECUTE FUNCTION wait()",
        )
        .await;
    let looking = tokio::spawn(visited.ada.get("/projects/engine/stats").attempt());
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    eventually(BACKGROUND, "it is on its way", async || visited.world.sql_number(waiting).await > 0).await;
    visited.world.edges[0].process.kill();
    let heir = &visited.world.edges[1].process;
    let taken_over = "sending the traffic of an edge that died";
    eventually(BACKGROUND, "its journal is taken over", async || heir.log().contains(taken_over)).await;
    latency(COLLECTED_WITHIN).await;
    sqlx::raw_sql("SELECT pg_advisory_unlock(1)").execute(&mut gate).await.unwrap();
    let _ = looking.await.unwrap();
    eventually(BACKGROUND, "the journal is sent", async || journals(&visited.world).len() <= 1).await;
    assert_eq!(recorded(&visited.world).await, 7);
}

#[tokio::test]
async fn what_an_edge_held_when_it_died_is_counted_once() {
    let mut visited = holding(600).await;
    for _ in 0..2 {
        visited.visit("/", 5).await;
        latency(COLLECTED_WITHIN).await;
    }
    assert_eq!(recorded(&visited.world).await, 2);
    visited.world.edges[0].process.kill();
    eventually(BACKGROUND, "the other edge has sent it", async || recorded(&visited.world).await >= 12).await;
    assert_eq!(recorded(&visited.world).await, 12);
}

#[tokio::test]
async fn a_report_whose_asker_left_keeps_nothing_from_the_next_one() {
    let visited = holding(600).await;
    visited.visit("/", 5).await;
    // One edge does not answer, so that a report waits for it.
    let silent = &visited.world.edges[1].process;
    silent.signal("STOP");
    let asking = visited.ada.get("/projects/engine/stats").attempt();
    assert!(tokio::time::timeout(Duration::from_millis(200), asking).await.is_err(), "nothing is waited for");
    let live = visited.live().await;
    silent.signal("CONT");
    assert_eq!(live["totals"]["requests"], 7, "{live:#}");
}

#[tokio::test]
async fn traffic_is_sent_in_time_although_nobody_looks() {
    let visited = holding(5).await;
    visited.visit("/", 3).await;
    eventually(BACKGROUND, "it is sent", async || recorded(&visited.world).await == 5).await;
}
