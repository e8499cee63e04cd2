//! Batches of traffic from edges. Each is recorded once, however often it is sent.

use std::{collections::HashMap, time::Duration};

use domain::{
    ProjectId, Timestamp,
    traffic::{HourTraffic, TrafficEntry},
};
use sqlx::PgPool;

/// Records the batch `number` of an edge, whose numbers rise and which sends one batch at a time. Returns false when it
/// was already recorded.
///
/// It is a single statement with its own commit, so an edge that vanishes in the middle leaves no lock behind, and may
/// send the same batch again.
pub async fn record(pool: &PgPool, edge: &str, number: i64, traffic: &[HourTraffic]) -> Result<bool, sqlx::Error> {
    let hours: Vec<Timestamp> = traffic.iter().map(|part| part.hour).collect();
    let projects: Vec<String> = traffic.iter().map(|part| part.project.as_str().to_owned()).collect();
    let sums: Vec<i64> = traffic
        .iter()
        .flat_map(|HourTraffic { sums, .. }| {
            let [s2, s3, s4, s5, other] = sums.statuses;
            let (pageviews, people_bytes) = (sums.pageviews, sums.people_bytes);
            [
                sums.requests,
                sums.bytes,
                sums.cache_hits,
                sums.cache_misses,
                s2,
                s3,
                s4,
                s5,
                other,
                pageviews,
                people_bytes,
            ]
        })
        .map(whole)
        .collect();
    // Postgres arrays begin at 1.
    let entries: Vec<(i32, &TrafficEntry)> =
        (1..).zip(traffic).flat_map(|(number, part)| part.entries.iter().map(move |entry| (number, entry))).collect();
    let entry_parts: Vec<i32> = entries.iter().map(|(number, _)| *number).collect();
    let kinds: Vec<String> = entries.iter().map(|(_, entry)| entry.kind.as_str().to_owned()).collect();
    let keys: Vec<String> = entries.iter().map(|(_, entry)| entry.key.clone().into()).collect();
    let requests: Vec<i64> = entries.iter().map(|(_, entry)| whole(entry.count.requests)).collect();
    let bytes: Vec<i64> = entries.iter().map(|(_, entry)| whole(entry.count.bytes)).collect();
    let visitors: Vec<(i32, i32)> = (1..)
        .zip(traffic)
        .flat_map(|(number, part)| part.visitors.iter().map(move |register| (number, register.to_stored())))
        .collect();
    let (register_parts, registers): (Vec<i32>, Vec<i32>) = visitors.into_iter().unzip();
    sqlx::query_scalar!(
        r#"SELECT append_traffic($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS "is_new!""#,
        edge,
        number,
        &hours as &[Timestamp],
        &projects,
        &sums,
        &entry_parts,
        &kinds,
        &keys,
        &requests,
        &bytes,
        &register_parts,
        &registers,
    )
    .fetch_one(pool)
    .await
}

/// Returns the name under which an edge sends a site's traffic ahead of its batches. The number of such a batch is that
/// of the last regular batch that included the traffic: regular batches up to it must leave out the site.
pub fn ahead_edge_name(edge: &str, project: &ProjectId) -> String {
    format!("{edge}:{project}")
}

/// Returns the sites sent ahead of an edge's batches, each with the number of the last regular batch that included it.
pub async fn list_sent_ahead(pool: &PgPool, edge: &str) -> Result<HashMap<ProjectId, i64>, sqlx::Error> {
    let name = format!("{edge}:");
    // The semicolon is the character after the colon.
    let after = format!("{edge};");
    let sent =
        sqlx::query!("SELECT edge_id, last_batch FROM traffic_edges WHERE edge_id > $1 AND edge_id < $2", name, after)
            .fetch_all(pool)
            .await?;
    let parse = |name: &str| name.rsplit_once(':')?.1.parse().ok();
    Ok(sent.iter().filter_map(|row| Some((parse(&row.edge_id)?, row.last_batch))).collect())
}

/// Returns whether Postgres is still recording a batch that this role sent at least `age` ago, because a statement
/// continues after its client has died. Its rows are invisible until it ends.
pub async fn is_being_recorded(pool: &PgPool, age: Duration) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM pg_stat_activity
               WHERE datname = current_database() AND usename = session_user AND pid <> pg_backend_pid()
                 AND state = 'active' AND query LIKE '%append_traffic(%'
                 AND query_start <= clock_timestamp() - make_interval(secs => $1)) AS "is_being_recorded!""#,
        age.as_secs_f64(),
    )
    .fetch_one(pool)
    .await
}

/// Returns whether [`record`] failed because of the given rows, so that a retry would fail too.
pub fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    // Class 22 is invalid data, class 23 a constraint violation.
    code.is_some_and(|code| matches!(code.get(..2), Some("22" | "23")))
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
