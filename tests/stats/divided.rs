//! Partitions: made before their days begin, dropped when their days are old, and made of tables that had none.

use std::path::Path;

use sqlx::{Connection as _, PgConnection, migrate::Migrator};

use super::*;
use crate::BACKGROUND;

/// The last migration of the version before.
const BEFORE: i64 = 30;
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");

/// The number of partitions of a table that hold an instant.
async fn partitions(world: &World, table: &str, instant: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM traffic_partitions
         WHERE parent = '{table}' AND lower_bound <= {instant} AND upper_bound > {instant}"
    );
    world.sql_number(&sql).await
}

#[tokio::test]
async fn days_without_a_partition_get_one_with_their_rows() {
    let mut visited = Visited::start(&Site::page("home")).await;
    visited.world.admin.kill();
    let drop = "DO $$ DECLARE part record; BEGIN
                    FOR part IN SELECT name FROM traffic_partitions LOOP EXECUTE 'DROP TABLE ' || part.name; END LOOP;
                END $$";
    visited.world.sql(drop).await;
    visited.visit("/", 7).await;
    eventually(SEEN_WITHIN, "the visits arrive", async || {
        visited.world.sql_number("SELECT coalesce(sum(sums[1]), 0)::bigint FROM traffic_recent").await == 7
    })
    .await;
    fold(&visited.world).await;
    let undivided = "SELECT sum(requests)::bigint FROM traffic_hours_default";
    assert_eq!(visited.world.sql_number(undivided).await, 7);
    visited.world.restart_admin_later().await;
    for table in ["traffic_hours", "traffic_hour_entries", "traffic_days"] {
        for instant in ["now()", "now() + interval '2 days'"] {
            eventually(BACKGROUND, "there is a partition", async || {
                partitions(&visited.world, table, instant).await == 1
            })
            .await;
        }
    }
    assert_eq!(visited.world.sql_number("SELECT count(*) FROM traffic_hours_default").await, 0);
    assert_eq!(visited.world.sql_number("SELECT count(*) FROM traffic_hour_entries_default").await, 0);
    let live = visited.live_with(7).await;
    assert_eq!(live["top_paths"][0]["requests"], 7);
}

#[tokio::test]
async fn a_partition_goes_when_it_is_old_and_its_hours_are_in_their_days() {
    let mut visited = Visited::start(&Site::page("home")).await;
    visited.visit("/", 7).await;
    visited.live_with(7).await;
    visited
        .world
        .sql(
            "SELECT add_traffic_partition(whole, current_date - n)
             FROM unnest(ARRAY['traffic_hours', 'traffic_hour_entries']) AS whole, generate_series(7, 9) AS n;
             SELECT add_traffic_partition('traffic_days', current_date - 500)",
        )
        .await;
    fold(&visited.world).await;
    // So long ago that their partition is old at any time of day.
    for table in ["traffic_hours", "traffic_hour_entries"] {
        visited.world.sql(&format!("UPDATE {table} SET hour = hour - interval '9 days'")).await;
    }
    let old = "SELECT count(*) FROM traffic_partitions WHERE upper_bound < now() - interval '7 days 12 hours'";
    // Their day is not made: they stay.
    let dropped = "SELECT count(*) FROM unnest(ARRAY['traffic_hours', 'traffic_hour_entries']) AS whole
                   WHERE drop_traffic_partition(whole, now() + interval '10 days')";
    let before = visited.world.sql_number(old).await;
    assert_eq!(visited.world.sql_number(dropped).await, 0);
    for _ in 0..2 {
        visited.world.restart_admin_later().await;
        eventually(BACKGROUND, "the day is made", async || {
            visited.world.sql_number("SELECT count(*) FROM traffic_days").await == 1
        })
        .await;
    }
    eventually(BACKGROUND, "old partitions go", async || visited.world.sql_number(old).await == 0).await;
    assert!(before > 0);
    assert_eq!(visited.world.sql_number("SELECT count(*) FROM traffic_hour_entries").await, 0);
    let kept = partitions(&visited.world, "traffic_hours", "current_date - interval '7 days'").await;
    assert_eq!(kept, 1, "the days before today are kept for a week");
}

#[tokio::test]
async fn tables_from_before_are_divided_with_all_their_rows() {
    let mut world = World::start().await;
    world.admin.kill();
    world.edges[0].process.kill();
    world.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    let mut connection = PgConnection::connect(world.database.as_str()).await.unwrap();
    let migrations = Migrator::new(Path::new(MIGRATIONS)).await.unwrap();
    migrations.run_to(BEFORE, &mut connection).await.unwrap();
    world
        .sql(
            "INSERT INTO users (id, vcs_id, vcs_login, created_at)
             VALUES ('usr_aaaaaaaaaaaaaaaaaaaa', '1', 'ada', now());
             INSERT INTO projects (id, name, user_id, created_at)
             VALUES ('prj_aaaaaaaaaaaaaaaaaaaa', 'engine', 'usr_aaaaaaaaaaaaaaaaaaaa', now());
             SELECT roll_traffic(date_trunc('day', now(), 'UTC'), 100)
             FROM (SELECT count(record_traffic(
                              'edge', n, ARRAY[now() - n * interval '7 hours'], ARRAY['prj_aaaaaaaaaaaaaaaaaaaa'],
                              ARRAY[n,n,n,n,n,n,n,n,n]::bigint[], ARRAY[1,1], ARRAY['path', 'missing_path'],
                              ARRAY['/', '/none'], ARRAY[n,n]::bigint[], ARRAY[n,n]::bigint[]))
                   FROM generate_series(1, 20) AS n) AS recorded",
        )
        .await;
    let sums = "SELECT concat_ws(' ', (SELECT sum(requests) FROM traffic_hours),
                                 (SELECT sum(bytes) FROM traffic_hour_entries),
                                 (SELECT sum(requests) FROM traffic_days), (SELECT count(*) FROM traffic_hours))";
    let before = world.sql_text(sums).await;
    let settings = config::Postgres { max_connections: 1, ..config::Postgres::default() };
    let pool = db::connect(&settings, world.database.as_str()).unwrap();
    db::migrate(&pool).await.unwrap();
    assert_eq!(world.sql_text(sums).await, before);
    for table in ["traffic_hours", "traffic_hour_entries", "traffic_days"] {
        assert_eq!(partitions(&world, table, "now()").await, 1);
        let moved = format!("SELECT count(*) FROM {table} WHERE tableoid <> '{table}_early'::regclass");
        assert_eq!(world.sql_number(&moved).await, 0, "nothing was copied");
    }
    // An edge of the version before goes on.
    let late = "SELECT record_traffic('edge', 21, ARRAY[now(), now()],
                    ARRAY['prj_aaaaaaaaaaaaaaaaaaaa', 'prj_aaaaaaaaaaaaaaaaaaaa'],
                    ARRAY[1,2,3,4,5,6,7,8,9, 10,20,30,40,50,60,70,80,90]::bigint[], ARRAY[1,2],
                    ARRAY['path', 'missing_path'], ARRAY['/late', '/none'], ARRAY[1,2]::bigint[],
                    ARRAY[3,4]::bigint[])::text";
    assert_eq!(world.sql_text(late).await, "true");
    assert_eq!(world.sql_text(late).await, "false");
    fold(&world).await;
    let hour = "SELECT concat_ws(' ', requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx, status_4xx,
                                 status_5xx, status_other, pageviews, people_bytes, paths, missing_paths)
                FROM traffic_hours WHERE hour = (SELECT max(hour) FROM traffic_hours)";
    assert_eq!(world.sql_text(hour).await, "11 22 33 44 55 66 77 88 99 0 0 1 1");
    let error = "SELECT concat_ws(' ', key, requests, bytes) FROM traffic_hour_entries WHERE kind = 'error'";
    assert_eq!(world.sql_text(error).await, "404\t/none\t 2 4");
    // The jobs of the version before do not run any more.
    let leased = "SELECT count(*) FROM job_leases WHERE leased_until > now() + interval '1 year'";
    assert_eq!(world.sql_number(leased).await, 5);
}
