//! The programs' connections to Postgres, used directly for faults that no client can bring about.

use std::{process::Command, time::Duration};

use domain::{CompletionId, Timestamp};
use serde_json::json;
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::{
    BACKGROUND,
    world::{World, eventually, process::run},
};

/// A pool as the programs have it, of one connection.
fn pool(world: &World) -> PgPool {
    let settings = config::Postgres { max_connections: 1, ..config::Postgres::default() };
    db::connect(&settings, world.database.as_str()).unwrap()
}

async fn answers(pool: &PgPool) -> bool {
    sqlx::query("SELECT 1").execute(pool).await.is_ok()
}

#[tokio::test]
async fn a_connection_whose_caller_gave_up_is_not_used_again() {
    let world = World::start().await;
    let pool = pool(&world);
    assert!(answers(&pool).await);
    let slow = sqlx::query("SELECT pg_sleep(600)").execute(&pool);
    assert!(tokio::time::timeout(Duration::from_millis(100), slow).await.is_err());
    eventually(BACKGROUND, "there is another connection", async || answers(&pool).await).await;
}

#[tokio::test]
async fn an_id_in_a_column_is_parsed() {
    let world = World::start().await;
    let pool = pool(&world);
    let id = CompletionId::new(Timestamp::from_unix_millis(1_700_000_000_000));
    let read = async |text: &str| sqlx::query_scalar("SELECT $1::text").bind(text).fetch_one(&pool).await;
    assert_eq!(read(id.as_str()).await.unwrap(), id);
    for wrong in ["", "cmp_1", "prj_00000000000000000000", "cmp_000000000000000000000"] {
        let read: sqlx::Result<CompletionId> = read(wrong).await;
        assert!(matches!(read, Err(sqlx::Error::ColumnDecode { .. })), "{wrong}: {read:?}");
    }
    let is_among = sqlx::query_scalar::<_, bool>("SELECT $1 = ANY ($2)").bind(&id).bind([id.clone()]);
    assert!(is_among.fetch_one(&pool).await.unwrap(), "one, and several, as arguments");
}

#[tokio::test]
async fn a_transaction_whose_caller_left_while_it_began_takes_nobody_elses_changes_along() {
    let world = World::start().await;
    let pool = pool(&world);
    let mut connection = pool.acquire().await.unwrap();
    let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *connection).await.unwrap();
    let signal = |name: &str| run(Command::new("kill").args(["-s", name, &session.to_string()]));
    signal("STOP");
    assert!(tokio::time::timeout(Duration::from_millis(100), connection.begin()).await.is_err());
    signal("CONT");
    drop(connection);
    let create = "CREATE TABLE made_by_another AS SELECT pg_backend_pid() AS session";
    sqlx::query(create).execute(&pool).await.unwrap();
    let made_by = world.sql_number("SELECT session::bigint FROM made_by_another").await;
    assert_eq!(made_by, i64::from(session), "the connection is used on");
}

#[tokio::test]
async fn a_connection_that_fell_silent_while_nobody_used_it_keeps_nobody_waiting() {
    let world = World::start().await;
    let pool = pool(&world);
    let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await.unwrap();
    eventually(BACKGROUND, "the connection is back", async || pool.num_idle() == 1).await;
    let signal = |name: &str| run(Command::new("kill").args(["-s", name, &session.to_string()]));
    signal("STOP");
    let is_answered = answers(&pool).await;
    signal("CONT");
    assert!(is_answered, "there is no other connection in time");
}

#[tokio::test]
async fn a_session_that_sits_in_a_transaction_is_ended_and_its_locks_with_it() {
    let world = World::start().await;
    world.user("ada").await;
    let (sleeper, other) = (pool(&world), pool(&world));
    let mut transaction = sleeper.begin().await.unwrap();
    sqlx::query("SELECT FROM users FOR UPDATE").execute(&mut *transaction).await.unwrap();
    let lock = async || sqlx::query("SELECT FROM users FOR UPDATE").execute(&other).await.is_ok();
    eventually(BACKGROUND, "the lock is free", lock).await;
    assert!(sqlx::query("SELECT 1").execute(&mut *transaction).await.is_err());
}

#[tokio::test]
async fn a_change_that_waits_for_a_lock_in_vain_is_to_be_tried_again() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let create = async || ada.post("/projects").json(&json!({ "name": "engine" })).await;
    let mut holder = PgConnection::connect(world.database.as_str()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE projects IN EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    let refused = create().await;
    assert_eq!(refused.header("retry-after"), "5");
    refused.assert_error(503, "busy");
    holder.close().await.unwrap();
    create().await.created();
}

/// A route is looked up in less than a millisecond; compiling such a statement takes thirty.
#[tokio::test]
async fn no_statement_is_compiled_however_dear_it_looks() {
    let world = World::start().await;
    let pool = pool(&world);
    sqlx::query("SELECT set_config('jit_above_cost', '0', false)").execute(&pool).await.unwrap();
    let explain = "EXPLAIN (ANALYZE) SELECT sum(last_seq) FROM route_counter";
    let plan: Vec<String> = sqlx::query_scalar(explain).fetch_all(&pool).await.unwrap();
    assert!(!plan.iter().any(|line| line.contains("JIT")), "{plan:#?}");
}

#[tokio::test]
async fn an_index_that_an_interrupted_start_left_unfinished_is_named() {
    let world = World::start().await;
    let before = "DELETE FROM _sqlx_migrations WHERE version = 51;
                  UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'invoices_in_series'::regclass";
    world.sql(before).await;
    let refused = world.operate(&["migrate"]).await;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("unfinished: invoices_in_series; run REINDEX"), "{said}");
    world.sql("REINDEX INDEX CONCURRENTLY invoices_in_series").await;
    world.admin_prints(&["migrate"]).await;
}

#[tokio::test]
async fn a_lease_is_given_back_although_its_connection_broke() {
    let world = World::start().await;
    // The first connection over which this lease is given back ends within the statement.
    world
        .sql(
            "CREATE SEQUENCE given_back;
             CREATE FUNCTION break_first() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF nextval('given_back') = 1 THEN
                     PERFORM pg_terminate_backend(pg_backend_pid());
                     PERFORM pg_sleep(10);
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER break_first BEFORE UPDATE ON job_leases FOR EACH ROW
                 WHEN (OLD.job = 'send letters' AND NEW.leased_until IS NULL) EXECUTE FUNCTION break_first()",
        )
        .await;
    let tries = async || world.sql_number("SELECT last_value FROM given_back").await;
    eventually(BACKGROUND, "it is given back over another connection", async || tries().await >= 2).await;
    let held = "SELECT count(*) FROM job_leases WHERE job = 'send letters' AND leased_until IS NOT NULL";
    eventually(BACKGROUND, "nobody holds it", async || world.sql_number(held).await == 0).await;
}

#[tokio::test]
async fn an_index_that_an_interrupted_start_left_unfinished_is_built_anew() {
    let world = World::start().await;
    let unfinished = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
    world
        .sql(
            "UPDATE pg_index SET indisvalid = false
             WHERE indexrelid IN ('ai_usage_versions_unsummed'::regclass, 'repo_links_by_check'::regclass);
             DELETE FROM _sqlx_migrations WHERE version = 73",
        )
        .await;
    assert_eq!(world.sql_number(unfinished).await, 2);
    world.admin_prints(&["migrate"]).await;
    assert_eq!(world.sql_number(unfinished).await, 0);
}
