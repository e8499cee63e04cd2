//! Floods: who makes paths up at sites that answer all of them makes few rows, whoever owns the sites, and no number is lost.

use db::stats::traffic;
use domain::{
    Clock, ProjectId,
    traffic::{HourTraffic, OTHER, TrafficCount, TrafficEntry, TrafficEntryKind, TrafficSums, hour_start},
};
use futures_util::{StreamExt as _, stream};
use sqlx::PgPool;

use super::*;
use crate::BACKGROUND;

const AT_ONCE: usize = 64;
/// Paths, errors and views that an hour has of a project.
const PROJECT_KEYS: [(TrafficEntryKind, usize); 3] =
    [(TrafficEntryKind::Path, 2_000), (TrafficEntryKind::Error, 1_000), (TrafficEntryKind::View, 4_000)];
/// And of all projects of a person.
const PERSON_KEYS: [(TrafficEntryKind, usize); 3] =
    [(TrafficEntryKind::Path, 10_000), (TrafficEntryKind::Error, 5_000), (TrafficEntryKind::View, 10_000)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_up_paths_that_are_answered_take_few_rows() {
    let visited = Visited::start(&Site::page("home").file("about.html", "about")).await;
    let edge = visited.world.edge();
    visited.visit("/", 5).await;
    let made_up = 2 * of(&PROJECT_KEYS, TrafficEntryKind::Path);
    stream::iter(0..made_up)
        .map(|number| edge.head(&format!("{}/made-up/{number}", visited.url)))
        .for_each_concurrent(AT_ONCE, async |visit| {
            visit.await.assert_status(200);
        })
        .await;
    visited.visit("/", 5).await;
    visited.visit("/about", 3).await;
    let visits = made_up + 13;
    let live = visited.live_with_within(visits, BACKGROUND).await;
    assert_eq!(live["status"]["2xx"], visits);
    assert_eq!(live["truncated"], true, "a list that is shown lacks entries, and says so");
    assert_eq!(live["top_paths"][0]["path"], "/");
    assert_eq!(live["top_paths"][0]["requests"], 10);
    assert_eq!(live["top_paths"][1]["path"], "/about", "a page that is visited after the flood has room");
    assert_eq!(live["top_paths"][1]["requests"], 3);
    fold(&visited.world).await;
    let rows = visited.world.sql_number(&rows_of(TrafficEntryKind::Path)).await;
    // An hour may end meanwhile.
    let hours = visited.world.sql_number("SELECT count(*) FROM traffic_hours").await;
    let most = i64::try_from(of(&PROJECT_KEYS, TrafficEntryKind::Path)).unwrap();
    assert!(rows >= 1_000 && rows <= hours * most, "{rows} rows in {hours} hours");
    let counted = "SELECT sum(requests)::bigint FROM traffic_hour_entries WHERE kind = 'path'";
    assert_eq!(usize::try_from(visited.world.sql_number(counted).await).unwrap(), visits, "the rest is (other)");
}

#[tokio::test]
async fn all_projects_of_a_person_have_a_bounded_number_of_rows() {
    let world = World::builder().plan(&serde_json::json!({})).start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let id = |project: Value| project["id"].as_str().unwrap().parse::<ProjectId>().unwrap();
    let mut projects = Vec::new();
    for number in 0..4 {
        projects.push(id(ada.create_project(&format!("own-{number}")).await));
    }
    for number in 0..4 {
        let org = ada.create_org(&format!("org-{number}")).await;
        projects.push(id(ada.create_project_in(&org, &format!("of-org-{number}")).await));
    }
    let hour = hour_start(Clock::system().now());
    // What two edges send, which know nothing of each other: every project has more than one may have.
    for (edge, batch) in [("one", 1), ("two", 1), ("one", 2)] {
        for (place, project) in projects.iter().enumerate() {
            let part = flood(project, hour, &format!("{edge}/{batch}"));
            let number = i64::try_from(batch * 100 + place).unwrap();
            assert!(traffic::record(&db, edge, number, &[part]).await.unwrap());
        }
    }
    // All shards at the same time, as jobs fold them.
    let shards = (0..4).map(|shard| db::stats::upkeep::fold(&db, 10_000, shard, 4));
    futures_util::future::try_join_all(shards).await.unwrap();
    fold(&world).await;
    for (kind, most) in PERSON_KEYS {
        assert_eq!(usize::try_from(world.sql_number(&rows_of(kind)).await).unwrap(), most, "{kind:?}");
    }
    for (kind, most) in PROJECT_KEYS {
        let of_project = format!("SELECT max(n) FROM ({} GROUP BY project_id) AS found (n)", rows_of(kind));
        let rows = usize::try_from(world.sql_number(&of_project).await).unwrap();
        assert!(rows <= most, "{rows} rows of {kind:?}");
        let sums = format!(
            "SELECT concat_ws(' ', min(n), max(n)) FROM (SELECT sum(requests) AS n FROM traffic_hour_entries
             WHERE kind = '{}' GROUP BY project_id) AS found",
            kind.as_str()
        );
        assert_eq!(
            world.sql_text(&sums).await,
            format!("{0} {0}", 3 * FLOOD),
            "{kind:?}: what has no row of its own is (other)"
        );
    }
    let requests = world.sql_number("SELECT sum(requests)::bigint FROM traffic_hours").await;
    assert_eq!(requests, i64::try_from(3 * 3 * FLOOD * projects.len()).unwrap());
    let kept = world.sql_number("SELECT count(*) FROM traffic_payer_hours").await;
    assert_eq!(kept, 3, "a row for each list, and one payer");
    // Another person has room.
    let modest = id(eve.create_project("modest").await);
    let part = HourTraffic { entries: vec![entry(TrafficEntryKind::Path, "/page", 1)], ..flood(&modest, hour, "") };
    assert!(traffic::record(&db, "one", 1_000, &[part]).await.unwrap());
    fold(&world).await;
    let page = world.sql_number("SELECT count(*) FROM traffic_hour_entries WHERE key = '/page'").await;
    assert_eq!(page, 1);
    // And what was counted of a key goes on being counted, when it is no new one.
    let of_path = "FROM traffic_hour_entries WHERE kind = 'path' AND key = ";
    let known =
        world.sql_text("SELECT min(key) FROM traffic_hour_entries WHERE kind = 'path' AND key LIKE '/one/1/%'").await;
    let owner = world.sql_text(&format!("SELECT min(project_id) {of_path} '{known}'")).await;
    let part = HourTraffic {
        entries: vec![entry(TrafficEntryKind::Path, &known, 5)],
        ..flood(&owner.parse().unwrap(), hour, "")
    };
    assert!(traffic::record(&db, "one", 1_001, &[part]).await.unwrap());
    fold(&world).await;
    let requests = format!("SELECT requests {of_path} '{known}' AND project_id = '{owner}'");
    assert_eq!(world.sql_number(&requests).await, 1 + 5);
}

/// Keys of each kind in one part.
const FLOOD: usize = 2_500;

/// A part with made-up keys, one answer each.
fn flood(project: &ProjectId, hour: domain::Timestamp, name: &str) -> HourTraffic {
    let kinds = PROJECT_KEYS.map(|(kind, _)| kind);
    let entries: Vec<TrafficEntry> =
        kinds.iter().flat_map(|kind| (0..FLOOD).map(move |n| entry(*kind, &format!("/{name}/{n}"), 1))).collect();
    let sums = TrafficSums { requests: entries.len() as u64, ..TrafficSums::default() };
    HourTraffic { hour, project: project.clone(), sums, entries, visitors: Vec::new() }
}

fn entry(kind: TrafficEntryKind, key: &str, requests: u64) -> TrafficEntry {
    TrafficEntry { kind, key: key.into(), count: TrafficCount { requests, bytes: 0 } }
}

fn of(bounds: &[(TrafficEntryKind, usize)], kind: TrafficEntryKind) -> usize {
    bounds.iter().find(|bound| bound.0 == kind).unwrap().1
}

/// Counts the keys of a kind, in all hours.
fn rows_of(kind: TrafficEntryKind) -> String {
    format!("SELECT count(*) FROM traffic_hour_entries WHERE kind = '{}' AND key <> '{OTHER}'", kind.as_str())
}
