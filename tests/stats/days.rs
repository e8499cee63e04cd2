//! Days: what hours become, and when both go.

use serde_json::Value;

use super::*;
use crate::BACKGROUND;

/// Moves everything that was counted back in time, and lets it be made days of anew.
async fn age(world: &World, by: &str) {
    world
        .sql(&format!(
            "UPDATE traffic_hours SET hour = hour - interval '{by}', is_rolled = false;
             UPDATE traffic_hour_entries SET hour = hour - interval '{by}'"
        ))
        .await;
}

async fn history(visited: &Visited, days: u32) -> Value {
    visited.ada.get(&format!("/projects/engine/stats/history?days={days}")).await.ok()
}

/// The requests of each day that had any, the latest first, with its distance from today.
fn requests_by_age(history: &Value) -> Vec<(usize, u64)> {
    let days = history["timeline"].as_array().unwrap().iter().rev().enumerate();
    days.map(|(age, day)| (age, day["requests"].as_u64().unwrap())).filter(|(_, requests)| *requests > 0).collect()
}

async fn rows(visited: &Visited, table: &str) -> i64 {
    visited.world.sql_number(&format!("SELECT count(*) FROM {table}")).await
}

#[tokio::test]
async fn hours_become_days_and_go() {
    let mut visited = Visited::start(&Site::page("home").file("about.html", "about")).await;
    visited.visit("/", 5).await;
    visited.visit("/about", 4).await;
    visited.visit("/missing", 3).await;
    let today = visited.live_with(12).await["totals"].clone();
    age(&visited.world, "2 days").await;
    // Before any job has run.
    assert_eq!(requests_by_age(&history(&visited, 3).await), [(2, 12)]);
    assert_eq!(history(&visited, 2).await["totals"]["requests"], 0);
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "the day is made", async || rows(&visited, "traffic_days").await == 1).await;
    let after = history(&visited, 3).await;
    assert_eq!((requests_by_age(&after), &after["totals"]), (vec![(2, 12)], &today));
    let of_day = "SELECT string_agg(concat_ws(' ', kind, key, requests, bytes), '; ' ORDER BY kind, key) FROM ";
    let entries = visited.world.sql_text(&format!("{of_day} traffic_day_entries")).await;
    let hours = visited.world.sql_text(&format!("{of_day} traffic_hour_entries")).await;
    assert_eq!(entries, hours);

    // What comes late is added, and made again what was made changes nothing.
    visited
        .world
        .sql(
            "UPDATE traffic_hours SET requests = requests + 1, is_rolled = false;
             UPDATE traffic_hour_entries SET requests = requests + 1 WHERE key = '/'",
        )
        .await;
    assert_eq!(requests_by_age(&history(&visited, 3).await), [(2, 13)]);
    for _ in 0..2 {
        visited.world.restart_admin_later().await;
        eventually(BACKGROUND, "the day is made anew", async || {
            visited.world.sql_number("SELECT sum(requests)::bigint FROM traffic_days").await == 13
                && visited.world.sql_number("SELECT count(*) FROM traffic_hours WHERE NOT is_rolled").await == 0
        })
        .await;
        visited.world.sql("UPDATE traffic_hours SET is_rolled = false").await;
    }
    let root = "SELECT requests FROM traffic_day_entries WHERE kind = 'path' AND key = '/'";
    assert_eq!(visited.world.sql_number(root).await, 6);

    // Hours go after a week, days stay for longer than the longest history.
    age(&visited.world, "7 days").await;
    visited.world.sql("UPDATE traffic_days SET day = day - 7; UPDATE traffic_day_entries SET day = day - 7").await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "the day is made before its hours go", async || {
        visited.world.sql_number("SELECT count(*) FROM traffic_hours WHERE NOT is_rolled").await == 0
    })
    .await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "the hours go", async || {
        rows(&visited, "traffic_hours").await + rows(&visited, "traffic_hour_entries").await == 0
    })
    .await;
    assert_eq!(requests_by_age(&history(&visited, 365).await), [(9, 13)]);
    visited.world.sql("UPDATE traffic_days SET day = day - 355; UPDATE traffic_day_entries SET day = day - 355").await;
    assert_eq!(requests_by_age(&history(&visited, 365).await), [(364, 13)]);
    visited.world.sql("UPDATE traffic_days SET day = day - 40; UPDATE traffic_day_entries SET day = day - 40").await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "the days go", async || {
        rows(&visited, "traffic_days").await + rows(&visited, "traffic_day_entries").await == 0
    })
    .await;
}

#[tokio::test]
async fn a_day_begins_at_midnight_in_utc() {
    let visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 6).await;
    visited.live_with(6).await;
    // All of it within the last hour of yesterday, and again within the first of today.
    visited
        .world
        .sql(
            "UPDATE traffic_hours SET hour = date_trunc('day', now(), 'UTC') - interval '1 hour', requests = 6, bytes = 24,
                    cache_hits = 5 WHERE hour = (SELECT max(hour) FROM traffic_hours);
             DELETE FROM traffic_hours WHERE hour <> date_trunc('day', now(), 'UTC') - interval '1 hour';
             INSERT INTO traffic_hours SELECT hour + interval '1 hour', project_id, 4, 16, 4, 0, 4, 0, 0, 0, 0, 1, 0
             FROM traffic_hours",
        )
        .await;
    let history = history(&visited, 30).await;
    assert_eq!(requests_by_age(&history), [(0, 4), (1, 6)], "{history:#}");
    assert_eq!(history["totals"], serde_json::json!({ "requests": 10, "bytes": 40, "cache_hits": 9 }));
}

#[tokio::test]
async fn traffic_of_a_deleted_project_goes() {
    let mut visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 3).await;
    visited.live_with(3).await;
    let id = visited.ada.project("engine").await["id"].as_str().unwrap().to_owned();
    age(&visited.world, "1 day").await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "the day is made", async || rows(&visited, "traffic_days").await == 1).await;
    visited.visit("/", 2).await;
    visited.ada.delete("/projects/engine").await.ok();
    visited.ada.get("/projects/engine/stats").await.assert_error(404, "not_found");
    visited.world.sql("UPDATE traffic_removals SET queued_at = queued_at - interval '1 hour'").await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "nothing of it is left", async || {
        let mut left = 0;
        for table in
            ["traffic_hours", "traffic_hour_entries", "traffic_days", "traffic_day_entries", "traffic_removals"]
        {
            left += visited.world.sql_number(&format!("SELECT count(*) FROM {table} WHERE project_id = '{id}'")).await;
        }
        left == 0
    })
    .await;
    // A batch that an edge still had comes to nothing.
    let late = format!(
        "SELECT record_traffic('late', 1, ARRAY[now()], ARRAY['{id}'], ARRAY[5,5,5,5,5,5,5,5,5]::bigint[],
             ARRAY[1], ARRAY['path'], ARRAY['/'], ARRAY[5]::bigint[], ARRAY[5]::bigint[])::text"
    );
    assert_eq!(visited.world.sql_text(&late).await, "true");
    assert_eq!(rows(&visited, "traffic_hours").await + rows(&visited, "traffic_hour_entries").await, 0);
}
