//! The database's part of a restore, before and after `pg_restore` fills it.

use domain::{DeploymentId, ProjectName};
use sqlx::{AssertSqlSafe, PgExecutor, PgPool};

/// The database to restore into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreTarget {
    /// The database's name at the server.
    pub name: String,
    /// The major version of the server.
    pub server: i32,
    /// Whether it has any table.
    pub has_tables: bool,
}

/// A live deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveDeployment {
    /// The deployment.
    pub id: DeploymentId,
    /// The project.
    pub project: ProjectName,
}

/// Describes the database.
pub async fn find_target(db: impl PgExecutor<'_>) -> Result<RestoreTarget, sqlx::Error> {
    sqlx::query_as!(
        RestoreTarget,
        r#"SELECT current_database()::text AS "name!", current_setting('server_version_num')::int / 10000 AS "server!",
                  EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('public')
                            AND relkind IN ('r', 'p')) AS "has_tables!""#
    )
    .fetch_one(db)
    .await
}

/// Returns those of the roles that the server does not have.
pub async fn missing_roles(db: impl PgExecutor<'_>, roles: &[String]) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT role AS "role!" FROM unnest($1::text[]) AS wanted (role)
           WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) ORDER BY 1"#,
        roles,
    )
    .fetch_all(db)
    .await
}

/// Moves everything in the database into the schema `aside`, whose name consists of letters, digits and `_`.
pub async fn set_aside(pool: &PgPool, aside: &str) -> Result<(), sqlx::Error> {
    // As in a fresh database, every role may use the schema, and only its owner may create in it.
    let sql =
        format!("ALTER SCHEMA public RENAME TO {aside}; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(drop)
}

/// Undoes [`set_aside`].
pub async fn put_back(pool: &PgPool, aside: &str) -> Result<(), sqlx::Error> {
    let sql = format!("DROP SCHEMA public CASCADE; ALTER SCHEMA {aside} RENAME TO public");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.map(drop)
}

/// Ends every job lease that was held at the time of the snapshot, including the backup's own. Leases of retired jobs,
/// which migrations made permanent, are kept.
pub async fn end_leases(db: impl PgExecutor<'_>) -> Result<(), sqlx::Error> {
    let ended =
        sqlx::query!("UPDATE job_leases SET leased_until = NULL WHERE leased_until < now() + interval '1 year'");
    ended.execute(db).await.map(drop)
}

/// Returns all live deployments.
pub async fn list_live(db: impl PgExecutor<'_>) -> Result<Vec<LiveDeployment>, sqlx::Error> {
    sqlx::query_as!(
        LiveDeployment,
        "SELECT d.id, p.name AS project FROM deployments d JOIN projects p ON p.id = d.project_id
           WHERE d.status = 'live' ORDER BY d.id"
    )
    .fetch_all(db)
    .await
}
