//! Months: what days become when their month has been over for a while, and that no report tells the difference.

use db::stats::months;
use domain::{
    Clock,
    month::Month,
    traffic::{
        OTHER,
        visitors::{ClassEvidence, VisitorClass},
    },
};
use serde_json::{Value, json};

use super::{
    rows::{agent, sums},
    *,
};
use crate::BACKGROUND;

/// Days ago that have rows: of this month and the one before, of one and of several months before those, and of one that
/// no report reaches.
const DAYS_AGO: [u32; 8] = [0, 1, 40, 70, 71, 200, 364, 390];

/// Whether a day is of a month that was over for a month.
const IS_OLD: &str = "day < date_trunc('month', now() AT TIME ZONE 'UTC') - interval '1 month'";

/// Writes days whose figures differ, with every list.
async fn write_days(visited: &Visited) {
    for (number, days_ago) in (1..).zip(DAYS_AGO) {
        let path = format!("/page-{}", number % 3);
        let view = format!("{path}\tnews.example\tDE\tengine.svc.localhost");
        let lists = json!({
            "hostname": [["engine.svc.localhost", 10 * number, 9]],
            "path": [[path, number, 1], [format!("/of-{days_ago}"), 1, 1], [OTHER, 3, 4]],
            "country": [["DE", number, 5]],
            "page": [[path, number, 1]],
            "referrer": [["news.example", number, 1], ["chatgpt.com", 1, 1]],
            "view_country": [["DE", number, 1]],
            "view": [[view, number, 1]],
            "error": [[format!("404\t/gone-{number}\t/from"), number, 7]],
            "agent": [[agent(VisitorClass::AiTraining, "GPTBot", ClassEvidence::Network), number, 8]],
            "agent_page": [["GPTBot", number, 0]],
            "agent_disallowed": [["GPTBot", 1, 0]],
        });
        visited.write_day(days_ago, &sums(100 * number, 1_000 * number, number), 10 + number, &lists).await;
    }
}

/// Every report of a year, without the time of the question.
async fn reports(visited: &Visited) -> Vec<Value> {
    let mut reports = Vec::new();
    for path in [
        "history?days=365",
        "history?days=365&hostname=engine.svc.localhost",
        "audience?days=365",
        "audience?days=365&page=/page-1",
        "bots?days=365",
        "errors?days=365",
        "errors?days=201",
        "history?days=30",
    ] {
        let mut report = visited.report(path).await;
        report.as_object_mut().unwrap().remove("to");
        reports.push(report);
    }
    let export = visited.ada.get("/projects/engine/stats/export?days=365&format=csv").await.assert_status(200);
    // The entries of a day stand in no order.
    let mut lines: Vec<String> = export.text().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    reports.push(json!(lines));
    reports
}

async fn rows(visited: &Visited, table: &str) -> i64 {
    visited.world.sql_number(&format!("SELECT count(*) FROM {table}")).await
}

/// Waits until the days of old months are in their months.
async fn condensed(visited: &mut Visited) {
    visited.world.restart_admin_later().await;
    let old = format!("SELECT count(*) FROM traffic_days WHERE {IS_OLD}");
    eventually(BACKGROUND, "old days are in months", async || visited.world.sql_number(&old).await == 0).await;
}

#[tokio::test]
async fn no_report_tells_a_month_from_its_days() {
    let mut visited = Visited::start(&Site::page("home")).await;
    visited.world.sql("SELECT add_traffic_partition('traffic_days', current_date - 200)").await;
    write_days(&visited).await;
    let before = reports(&visited).await;
    assert_eq!(before[0]["totals"]["requests"], 100 * (1..=7).sum::<u64>());

    let old = format!("SELECT count(DISTINCT date_trunc('month', day)) FROM traffic_days WHERE {IS_OLD}");
    let old = visited.world.sql_number(&old).await;
    assert!(old >= 3);
    condensed(&mut visited).await;
    assert!(rows(&visited, "traffic_months").await >= old);
    for (before, after) in before.iter().zip(reports(&visited).await) {
        assert_eq!(*before, after);
    }
    let partition = "SELECT count(*) FROM traffic_partitions WHERE parent = 'traffic_days'
                     AND lower_bound <= current_date - 200 AND upper_bound > current_date - 200";
    eventually(BACKGROUND, "the empty partition goes", async || visited.world.sql_number(partition).await == 0).await;

    // A day that is made anew of what came late: with less it changes nothing, with more it counts.
    let months = rows(&visited, "traffic_months").await;
    visited.write_day(200, &sums(5, 5, 0), 1, &json!({})).await;
    assert_eq!(reports(&visited).await, before);
    condensed(&mut visited).await;
    assert_eq!(reports(&visited).await, before);
    visited.write_day(200, &sums(100_000, 100_000, 0), 1, &json!({})).await;
    for _ in 0..2 {
        let requests = visited.report("history?days=365").await["totals"]["requests"].as_u64().unwrap();
        assert_eq!(requests, 100 * (1 + 2 + 3 + 4 + 5 + 7) + 100_000);
        condensed(&mut visited).await;
    }
    assert_eq!(rows(&visited, "traffic_months").await, months);
}

#[tokio::test]
async fn two_that_make_the_same_month_lose_nothing() {
    let visited = Visited::start(&Site::page("home")).await;
    write_days(&visited).await;
    let before = reports(&visited).await;
    let settings = config::Postgres { max_connections: 4, ..config::Postgres::default() };
    let pool = db::connect(&settings, visited.world.database.as_str()).unwrap();
    let this_month = Month::from_date(Clock::system().now().as_datetime().date()).first_day();
    let found = months::list_condensable(&pool, this_month, 100).await.unwrap();
    assert!(found.len() >= 4, "{found:?}");
    for month in &found {
        // Both have begun before either has the days.
        let mut holder = pool.begin().await.unwrap();
        sqlx::query("SELECT FROM traffic_days FOR UPDATE").execute(&mut *holder).await.unwrap();
        let release = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity
                           WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM traffic_days%'
                           AND datname = current_database()";
            eventually(BACKGROUND, "both wait", async || visited.world.sql_number(waiting).await == 2).await;
            holder.rollback().await.unwrap();
        };
        let (one, other, ()) = tokio::join!(months::condense(&pool, month), months::condense(&pool, month), release);
        one.unwrap();
        other.unwrap();
    }
    assert_eq!(reports(&visited).await, before);
}

#[tokio::test]
async fn months_go_with_time_and_with_their_project() {
    let mut visited = Visited::start(&Site::page("home")).await;
    write_days(&visited).await;
    condensed(&mut visited).await;
    let months = rows(&visited, "traffic_months").await;
    visited
        .world
        .sql("UPDATE traffic_months SET month = month - interval '2 years' WHERE month < current_date - 300")
        .await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "the oldest go", async || rows(&visited, "traffic_months").await < months).await;
    assert!(rows(&visited, "traffic_months").await > 0);

    visited.ada.delete("/projects/engine").await.ok();
    // It cannot be restored any more.
    visited.world.sql("DELETE FROM deleted_projects").await;
    visited.world.sql("UPDATE traffic_removals SET queued_at = queued_at - interval '1 hour'").await;
    visited.world.restart_admin_later().await;
    eventually(BACKGROUND, "all go", async || rows(&visited, "traffic_months").await == 0).await;
}
