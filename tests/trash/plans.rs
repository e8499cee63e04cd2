//! What the jobs read of a large database: a bounded number of rows, by index.

use db::upkeep::{deployments, store_sweep};
use domain::{Clock, DeploymentId, ProjectId};
use sqlx::PgPool;

use crate::world::dump::BareDatabase;

/// Projects, unless `SVC_TEST_PLAN_SITES` says another number, and the deployments of each.
const PROJECTS: i64 = 20_000;
const DEPLOYMENTS: i64 = 30;
/// Projects that one batch looks at.
const PAGE: i64 = 5_000;
/// Deployments that a project has at least before any expires.
const LEAST: u32 = 10;

/// Rows that were read of a table since the counters were reset: by sequential scans, and by index.
async fn read(pool: &PgPool, table: &str) -> (i64, i64) {
    let mut conn = pool.acquire().await.unwrap();
    sqlx::query("SELECT pg_stat_force_next_flush()").execute(&mut *conn).await.unwrap();
    sqlx::query("SELECT 1").execute(&mut *conn).await.unwrap();
    let counts = "SELECT seq_tup_read, COALESCE(idx_tup_fetch, 0) + (SELECT COALESCE(sum(idx_tup_read), 0)::bigint
                      FROM pg_stat_user_indexes WHERE relname = $1)
                  FROM pg_stat_user_tables WHERE relname = $1";
    sqlx::query_as(counts).bind(table).fetch_one(&mut *conn).await.unwrap()
}

async fn reset(pool: &PgPool) {
    let mut conn = pool.acquire().await.unwrap();
    for sql in ["SELECT pg_stat_force_next_flush()", "SELECT pg_stat_reset()"] {
        sqlx::query(sql).execute(&mut *conn).await.unwrap();
    }
}

#[tokio::test]
async fn a_batch_reads_as_much_as_it_looks_at_however_many_there_are() {
    let projects_there = std::env::var("SVC_TEST_PLAN_SITES").map_or(PROJECTS, |text| text.parse().unwrap());
    let database = BareDatabase::new().await;
    let settings = config::Postgres { max_connections: 1, ..config::Postgres::default() };
    let pool = db::connect(&settings, database.url.as_str()).unwrap();
    let fill = format!(
        "SET session_replication_role = replica;
         SET statement_timeout = 0;
         INSERT INTO users (id, vcs_id, vcs_login, created_at) VALUES ('usr_00000000000000000000', '1', 'ada', now());
         INSERT INTO projects (id, name, user_id, created_at)
         SELECT 'prj_' || lpad(n::text, 20, '0'), 'project-' || n, 'usr_00000000000000000000', now()
         FROM generate_series(1, {projects_there}) AS n;
         INSERT INTO deployments (id, project_id, status, created_at)
         SELECT 'dep_' || lpad((k * {projects_there} + n)::text, 20, '0'), 'prj_' || lpad(n::text, 20, '0'),
                CASE WHEN k = {DEPLOYMENTS} - 1 THEN 'live' WHEN n % 2 = 0 THEN 'failed' ELSE 'superseded' END,
                -- One project in a hundred has old ones.
                now() - CASE WHEN n % 100 = 0 THEN interval '31 days' ELSE interval '1 day' END
         FROM generate_series(1, {projects_there}) AS n, generate_series(0, {DEPLOYMENTS} - 1) AS k;
         SET session_replication_role = origin;
         ANALYZE projects; ANALYZE deployments"
    );
    let mut filling = pool.acquire().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(fill)).execute(&mut *filling).await.unwrap();
    drop(filling);

    let now = Clock::system().now();
    let (mut after, mut crowded, mut batches) = (None::<ProjectId>, 0, 0);
    loop {
        reset(&pool).await;
        let (last, projects) = deployments::crowded_projects(&pool, LEAST, after.as_ref(), PAGE, now).await.unwrap();
        let of_projects = read(&pool, "projects").await;
        let of_deployments = read(&pool, "deployments").await;
        assert_eq!((of_projects.0, of_deployments.0), (0, 0), "a table was read from its beginning to its end");
        // A look at the oldest of each project, and at `LEAST` of those whose oldest is old; twice, for index and row.
        let most = 4 * PAGE + 4 * i64::from(LEAST) * PAGE / 100;
        assert!(of_deployments.1 <= most, "{} of at most {most} rows were read", of_deployments.1);
        assert!(of_projects.1 <= 8 * PAGE, "{} rows of projects were read", of_projects.1);
        crowded += projects.len();
        let Some(last) = last else { break };
        after = Some(last);
        batches += 1;
    }
    assert_eq!((i64::try_from(crowded).unwrap(), batches), (projects_there / 100, projects_there / PAGE));

    reset(&pool).await;
    let ids: Vec<DeploymentId> = (1..=1_000).map(|n| format!("dep_{n:020}").parse().unwrap()).collect();
    assert_eq!(store_sweep::find_records(&pool, &ids).await.unwrap().len(), ids.len());
    let of_deployments = read(&pool, "deployments").await;
    assert!(of_deployments.0 == 0 && of_deployments.1 <= 2_000, "{of_deployments:?}");
    pool.close().await;
    database.remove().await;
}
