//! Days: what hours become, and when both go.

use std::hash::{BuildHasher as _, RandomState};

use db::stats::{salts, traffic};
use domain::{
    Clock, ProjectId,
    traffic::{
        HourTraffic, TrafficCount, TrafficEntry, TrafficEntryKind, TrafficSums, ViewKey, hour_start,
        sketch::{SketchRegister, VisitorSketch},
    },
};
use serde_json::{Value, json};
use sqlx::PgPool;

use super::*;
use crate::BACKGROUND;

/// Moves everything that was counted back in time, and lets it be made days of anew.
async fn age(world: &World, by: &str) {
    fold(world).await;
    world
        .sql(&format!(
            "UPDATE traffic_hours SET hour = hour - interval '{by}', is_rolled = false;
             UPDATE traffic_hour_entries SET hour = hour - interval '{by}';
             UPDATE traffic_visitors SET day = day - interval '{by}'"
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

/// Waits until the only day's row is made.
async fn wait_for_day(visited: &mut Visited) {
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "the day is made", async || rows(visited, "traffic_days").await == 1).await;
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
    wait_for_day(&mut visited).await;
    let after = history(&visited, 3).await;
    assert_eq!((requests_by_age(&after), &after["totals"]), (vec![(2, 12)], &today));
    // Its lists are what its hours are made of.
    let text =
        r#"string_agg(concat_ws(' ', kind, key, requests, bytes), '; ' ORDER BY kind COLLATE "C", key COLLATE "C")"#;
    let hours = format!(
        "SELECT {text} FROM (SELECT kind, key, sum(requests) AS requests, sum(bytes) AS bytes
                             FROM traffic_hour_entries GROUP BY kind, key) AS entry"
    );
    let lists = format!(
        "SELECT {text} FROM (SELECT kind, entry->>0 AS key, entry->>1 AS requests, entry->>2 AS bytes
                             FROM traffic_days, json_each(lists) AS list (kind, entries),
                                  json_array_elements(entries) AS entry
                             WHERE kind IN (SELECT kind FROM traffic_hour_entries)) AS entry"
    );
    assert_eq!(visited.world.sql_text(&lists).await, visited.world.sql_text(&hours).await);

    // What comes late is added, and made again what was made changes nothing.
    visited
        .world
        .sql(
            "UPDATE traffic_hours SET requests = requests + 1, is_rolled = false
             WHERE hour = (SELECT max(hour) FROM traffic_hours);
             UPDATE traffic_hour_entries SET requests = requests + 1
             WHERE key = '/' AND hour = (SELECT max(hour) FROM traffic_hour_entries WHERE key = '/')",
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
    let root = "SELECT (entry->>1)::bigint FROM traffic_days, json_array_elements(lists->'path') AS entry
                WHERE entry->>0 = '/'";
    assert_eq!(visited.world.sql_number(root).await, 6);

    // Hours go after a week, days stay for longer than the longest history.
    age(&visited.world, "7 days").await;
    visited.world.sql("UPDATE traffic_days SET day = day - 7").await;
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
    visited.world.sql("UPDATE traffic_days SET day = day - 355").await;
    assert_eq!(requests_by_age(&history(&visited, 365).await), [(364, 13)]);
    // A month goes with its last day.
    visited.world.sql("UPDATE traffic_days SET day = day - 80").await;
    for table in ["traffic_days", "traffic_months"] {
        visited.world.restart_admin_later().await;
        eventually(BACKGROUND, "the days go", async || rows(&visited, table).await == 0).await;
    }
}

#[tokio::test]
async fn a_day_begins_at_midnight_in_utc() {
    let visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 6).await;
    visited.live_with(6).await;
    fold(&visited.world).await;
    // All of it within the last hour of yesterday, and again within the first of today.
    visited
        .world
        .sql(
            "UPDATE traffic_hours SET hour = date_trunc('day', now(), 'UTC') - interval '1 hour',
                                      requests = 6, bytes = 24, cache_hits = 5 WHERE hour = (SELECT max(hour) FROM traffic_hours);
             DELETE FROM traffic_hours WHERE hour <> date_trunc('day', now(), 'UTC') - interval '1 hour';
             INSERT INTO traffic_hours SELECT hour + interval '1 hour', project_id, 4, 16, 4, 0, 4, 0, 0, 0, 0, 1, 0
             FROM traffic_hours",
        )
        .await;
    let history = history(&visited, 30).await;
    assert_eq!(requests_by_age(&history), [(0, 4), (1, 6)], "{history:#}");
    assert_eq!(history["totals"], json!({ "requests": 10, "bytes": 40, "cache_hits": 9 }));
}

/// A part of a batch within the present hour, with views of these paths, as often, and with visitors.
fn part(project: &ProjectId, views: &[(&str, &str, u64)], visitors: Vec<SketchRegister>) -> HourTraffic {
    let entry = |&(path, referrer, requests): &(&str, &str, u64)| TrafficEntry {
        kind: TrafficEntryKind::View,
        key: ViewKey { path, referrer, country: "DE", hostname: "engine.example" }.encode().into(),
        count: TrafficCount { requests, bytes: requests * 10 },
    };
    let entries: Vec<TrafficEntry> = views.iter().map(entry).collect();
    let requests = entries.iter().map(|entry| entry.count.requests).sum();
    let sums = TrafficSums { requests, pageviews: requests, people_bytes: requests * 10, ..TrafficSums::default() };
    HourTraffic { hour: hour_start(Clock::system().now()), project: project.clone(), sums, entries, visitors }
}

#[tokio::test]
async fn a_day_has_its_views_by_page_and_referrer_and_its_visitors() {
    let mut visited = Visited::start(&Site::page("home")).await;
    let project: ProjectId = visited.ada.project("engine").await["id"].as_str().unwrap().parse().unwrap();
    let db = PgPool::connect(visited.world.database.as_str()).await.unwrap();
    let salt = RandomState::new();
    let visitor = |number: u64| SketchRegister::from_hash(salt.hash_one(number));
    let mut truth = VisitorSketch::default();
    truth.extend((0..3_000).map(visitor));
    // Two edges, which share visitors; one of them sends more of them in a second batch.
    let batches = [
        ("one", 1, vec![("/", "", 3), ("/a\u{301} b", "news.example", 2)], 0..2_000),
        ("another", 1, vec![("/", "news.example", 5)], 1_000..2_500),
        ("one", 2, vec![("/", "", 4)], 2_400..3_000),
    ];
    for (edge, number, views, visitors) in batches {
        let traffic = [part(&project, &views, visitors.map(visitor).collect())];
        for is_new in [true, false] {
            assert_eq!(traffic::record(&db, edge, number, &traffic).await.unwrap(), is_new);
        }
    }
    age(&visited.world, "1 day").await;
    wait_for_day(&mut visited).await;
    let lists = visited.world.sql_text("SELECT lists::text FROM traffic_days").await;
    let lists: Value = serde_json::from_str(&lists).unwrap();
    assert_eq!(lists["page"], json!([["/", 12, 120], ["/a\u{301} b", 2, 20]]));
    assert_eq!(lists["referrer"], json!([["news.example", 7, 70]]));
    assert_eq!(lists["view_country"], json!([["DE", 14, 140]]));
    assert_eq!(lists["view"][0], json!(["/\t\tDE\tengine.example", 7, 70]));
    let of_day = "SELECT concat_ws(' ', requests, pageviews, people_bytes, visitors) FROM traffic_days";
    assert_eq!(visited.world.sql_text(of_day).await, format!("14 14 140 {}", truth.estimate()));
    assert!(truth.estimate().abs_diff(3_000) < 100);
    // Visitors that come late are added to those who were there.
    truth.extend((5_000..9_000).map(visitor));
    let mut late = part(&project, &[("/", "", 1)], (5_000..9_000).map(visitor).collect());
    late.hour = late.hour - Duration::from_hours(24);
    assert!(traffic::record(&db, "late", 1, &[late]).await.unwrap());
    fold(&visited.world).await;
    visited.world.restart_admin_later().await;
    let expected = format!("15 15 150 {}", truth.estimate());
    eventually(BACKGROUND, "the day is made anew", async || visited.world.sql_text(of_day).await == expected).await;
}

#[tokio::test]
async fn lists_of_a_day_are_cut_and_their_sums_stay() {
    let mut visited = Visited::start(&Site::page("home")).await;
    let project: ProjectId = visited.ada.project("engine").await["id"].as_str().unwrap().parse().unwrap();
    let db = PgPool::connect(visited.world.database.as_str()).await.unwrap();
    let paths: Vec<String> = (0..400).map(|number| format!("/page/{number:03}")).collect();
    let views: Vec<(&str, &str, u64)> = paths.iter().zip(1..).map(|(path, views)| (path.as_str(), "", views)).collect();
    assert!(traffic::record(&db, "one", 1, &[part(&project, &views, Vec::new())]).await.unwrap());
    age(&visited.world, "1 day").await;
    wait_for_day(&mut visited).await;
    for (kind, length) in [("page", 100), ("view", 200)] {
        let of_list = |what: &str| {
            format!(
                "SELECT {what} FROM traffic_days, json_array_elements(lists->'{kind}') WITH ORDINALITY AS l (entry, n)"
            )
        };
        assert_eq!(visited.world.sql_number(&of_list("count(*)")).await, length + 1);
        assert_eq!(visited.world.sql_number(&of_list("sum((entry->>1)::bigint)::bigint")).await, 400 * 401 / 2);
        let ends = format!("SELECT concat(lists->'{kind}'->0->>0, ' ', lists->'{kind}'->-1->>0) FROM traffic_days");
        let ends = visited.world.sql_text(&ends).await;
        assert!(ends.starts_with("/page/399") && ends.ends_with(" (other)"), "the most frequent comes first: {ends}");
    }
}

#[tokio::test]
async fn all_edges_have_one_salt_for_a_day_and_it_goes_with_the_day() {
    let mut world = World::start().await;
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let today = Clock::system().now().as_datetime().date();
    // No day that is over: its salt may be destroyed at any moment.
    let tomorrow = today.next_day().unwrap();
    for day in [today, tomorrow] {
        let concurrent = (1..=8).map(|edge| salts::find_or_insert(&db, day, [edge; 32]));
        let salts = futures_util::future::try_join_all(concurrent).await.unwrap();
        assert!(salts.iter().all(|salt| *salt == salts[0]), "{salts:?}");
        assert_eq!(salts::find_or_insert(&db, day, [9; 32]).await.unwrap(), salts[0]);
    }
    world.sql(&format!("UPDATE visitor_salts SET day = day - 3 WHERE day = '{tomorrow}'")).await;
    world.restart_admin_later().await;
    let of_past = format!("SELECT count(*) FROM visitor_salts WHERE day < '{today}'");
    eventually(BACKGROUND, "the salt is destroyed", async || world.sql_number(&of_past).await == 0).await;
    assert_eq!(world.sql_number("SELECT count(*) FROM visitor_salts").await, 1);
}

#[tokio::test]
async fn traffic_of_a_deleted_project_goes() {
    let mut visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 3).await;
    visited.live_with(3).await;
    let id = visited.ada.project("engine").await["id"].as_str().unwrap().to_owned();
    age(&visited.world, "1 day").await;
    wait_for_day(&mut visited).await;
    let visitors =
        "INSERT INTO traffic_visitors SELECT day, project_id, 0, '{65}' FROM traffic_days ON CONFLICT DO NOTHING";
    visited.world.sql(visitors).await;
    visited.visit("/", 2).await;
    visited.ada.delete("/projects/engine").await.ok();
    visited.ada.get("/projects/engine/stats").await.assert_error(404, "not_found");
    // It cannot be restored any more.
    visited.world.sql("DELETE FROM deleted_projects").await;
    visited.world.sql("UPDATE traffic_removals SET queued_at = queued_at - interval '1 hour'").await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "nothing of it is left", async || {
        let mut left = 0;
        for table in [
            "traffic_recent",
            "traffic_hours",
            "traffic_hour_entries",
            "traffic_days",
            "traffic_visitors",
            "traffic_removals",
        ] {
            left += visited.world.sql_number(&format!("SELECT count(*) FROM {table} WHERE project_id = '{id}'")).await;
        }
        left == 0
    })
    .await;
    // A batch that an edge still had comes to nothing, also one of the version before.
    let late = format!(
        "SELECT record_traffic('late', 1, ARRAY[now()], ARRAY['{id}'], ARRAY[5,5,5,5,5,5,5,5,5]::bigint[],
             ARRAY[1], ARRAY['path'], ARRAY['/'], ARRAY[5]::bigint[], ARRAY[5]::bigint[])::text"
    );
    assert_eq!(visited.world.sql_text(&late).await, "true");
    assert_eq!(rows(&visited, "traffic_recent").await, 0);
}
