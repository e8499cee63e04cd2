//! Bandwidth: what the sites of a person or an organization sent within a month.

use db::stats::bandwidth::{self, Bandwidth};
use domain::{Account, ProjectId, month::Month};
use sqlx::PgPool;

use super::*;

fn of_requests(requests: u64) -> Bandwidth {
    Bandwidth { bytes: 100 * requests, people_bytes: 10 * requests }
}

/// The columns of so many requests, up to the statuses.
fn columns(requests: u32) -> String {
    format!("{requests}, {}, 0, 0, 0, 0, 0, 0, 0", 100 * requests)
}

async fn add_day(world: &World, project: &ProjectId, day: &str, requests: u32) {
    let columns = columns(requests);
    world
        .sql(&format!(
            "INSERT INTO traffic_days (day, project_id, requests, bytes, cache_hits, cache_misses,
                                       status_2xx, status_3xx, status_4xx, status_5xx, status_other, people_bytes)
             VALUES ('{day}', '{project}', {columns}, {})",
            10 * requests
        ))
        .await;
}

async fn add_hour(world: &World, project: &ProjectId, hour: &str, requests: u32) {
    let columns = columns(requests);
    world
        .sql(&format!(
            "INSERT INTO traffic_hours (hour, project_id, requests, bytes, cache_hits, cache_misses,
                                        status_2xx, status_3xx, status_4xx, status_5xx, status_other, people_bytes)
             VALUES ('{hour}', '{project}', {columns}, {})",
            10 * requests
        ))
        .await;
}

#[tokio::test]
async fn an_account_has_the_bandwidth_of_its_sites_in_a_month() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    let mut projects = Vec::new();
    for name in ["one", "two", "team"] {
        staff.owner.publish(name, &Site::page("home")).await;
        let id: ProjectId = staff.owner.project(name).await["id"].as_str().unwrap().parse().unwrap();
        projects.push(id);
    }
    let [one, two, team] = &projects[..] else { unreachable!() };
    staff.owner.post("/projects/team/transfer").json(&serde_json::json!({ "org": "acme" })).await.ok();
    let owner = async |column: &str, project: &ProjectId| {
        world.sql_text(&format!("SELECT {column} FROM projects WHERE id = '{project}'")).await
    };
    let person = Account::User(owner("user_id", one).await.parse().unwrap());
    let org = Account::Org(owner("org_id", team).await.parse().unwrap());

    let month: Month = "2026-08".parse().unwrap();
    // On the 20th.
    let now = month.start() + Duration::from_hours(19 * 24 + 12);
    for (day, requests) in [("2026-07-31", 1_000), ("2026-08-01", 10), ("2026-08-05", 20), ("2026-09-01", 5_000)] {
        add_day(&world, one, day, requests).await;
    }
    // Something came late; and of another day, some hours have gone.
    add_day(&world, one, "2026-08-19", 30).await;
    add_hour(&world, one, "2026-08-19T23:00Z", 40).await;
    add_day(&world, one, "2026-08-14", 50).await;
    add_hour(&world, one, "2026-08-14T00:00Z", 5).await;
    // Today, in part still as it came.
    add_hour(&world, one, "2026-08-20T00:00Z", 7).await;
    world
        .sql(&format!(
            "INSERT INTO traffic_recent VALUES ('{one}', '2026-08-20T12:00Z', '{{3,300,0,0,0,0,0,0,0,0,30}}',
                                                '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
        ))
        .await;
    add_day(&world, two, "2026-08-02", 500).await;
    add_day(&world, team, "2026-08-02", 3).await;

    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let of_person = bandwidth::by_project(&db, &person, month, now).await.unwrap();
    assert_eq!(of_person, [(two.clone(), of_requests(500)), (one.clone(), of_requests(130))]);
    assert_eq!(bandwidth::of_month(&db, &person, month, now).await.unwrap(), of_requests(630));
    assert_eq!(bandwidth::of_month(&db, &org, month, now).await.unwrap(), of_requests(3));
    let before: Month = "2026-07".parse().unwrap();
    assert_eq!(bandwidth::of_month(&db, &person, before, now).await.unwrap(), of_requests(1_000));
    assert_eq!(bandwidth::of_month(&db, &org, before, now).await.unwrap(), Bandwidth::default());
}
