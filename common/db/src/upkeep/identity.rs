//! Checks that the database belongs to its store and master key: its packs, a sealed check value, and takeovers from
//! another database. Also describes the server to an operator.

use domain::{DeploymentId, Timestamp};
use sqlx::{PgExecutor, PgPool};

use crate::migrations;

/// The id of the only row of `master_key_checks`.
pub const CHECK: &str = "check";

/// Returns whether an error means that a table of this program's version is missing, because no admin has migrated yet.
pub fn is_unmigrated(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "42P01")
}

/// Returns whether an admin of this version or a later one has migrated the database.
pub async fn is_migrated(db: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT to_regclass('take_overs') IS NOT NULL AS "is_there!""#).fetch_one(db).await
}

/// Returns the check value sealed with the master key, if it is written.
pub async fn sealed_check(db: impl PgExecutor<'_>) -> Result<Option<Vec<u8>>, sqlx::Error> {
    sqlx::query_scalar!("SELECT sealed_check FROM master_key_checks WHERE id = $1", CHECK).fetch_optional(db).await
}

/// Writes the sealed check value unless there is one.
pub async fn write_check(db: impl PgExecutor<'_>, sealed: &[u8]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO master_key_checks (id, sealed_check) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        CHECK,
        sealed,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns whether the database has a record of any of these deployments.
pub async fn has_any(db: impl PgExecutor<'_>, ids: &[DeploymentId]) -> Result<bool, sqlx::Error> {
    let ids: Vec<String> = ids.iter().map(DeploymentId::to_string).collect();
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM deployments WHERE id = ANY($1)) AS "knows!""#, &ids)
        .fetch_one(db)
        .await
}

/// Returns at most `limit` of the newest deployments with packs.
pub async fn newest_packs(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT id FROM deployments WHERE status IN ('live', 'superseded') ORDER BY id DESC LIMIT $1",
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns the time this database took over `part` from the database `former_name`, if it did.
pub async fn taken_over_at(
    db: impl PgExecutor<'_>,
    part: &str,
    former_name: &str,
) -> Result<Option<Timestamp>, sqlx::Error> {
    sqlx::query_scalar!("SELECT taken_at FROM take_overs WHERE part = $1 AND former_name = $2", part, former_name)
        .fetch_optional(db)
        .await
}

/// Records that this database took over `part` from the database `former_name`.
pub async fn record_take_over(
    db: impl PgExecutor<'_>,
    part: &str,
    former_name: &str,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO take_overs (part, former_name, taken_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        part,
        former_name,
        now,
    )
    .execute(db)
    .await
    .map(drop)
}

/// The state of the Postgres server and of this connection.
#[derive(Debug)]
pub struct ServerInfo {
    /// The version, such as `15.9`.
    pub version: String,
    /// Whether this connection is encrypted.
    pub is_encrypted: bool,
    /// The number of open connections, over all programs and databases.
    pub connections: i64,
    /// The maximum number of connections.
    pub max_connections: i64,
    /// Whether the server is a replica, and read-only.
    pub is_in_recovery: bool,
    /// The server's time.
    pub now: Timestamp,
}

/// Returns the state of the Postgres server and of this connection.
pub async fn server(db: impl PgExecutor<'_>) -> Result<ServerInfo, sqlx::Error> {
    sqlx::query_as!(
        ServerInfo,
        r#"SELECT current_setting('server_version') AS "version!",
                  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS "is_encrypted!",
                  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS "connections!",
                  current_setting('max_connections')::bigint AS "max_connections!",
                  pg_is_in_recovery() AS "is_in_recovery!",
                  clock_timestamp() AS "now!: Timestamp""#
    )
    .fetch_one(db)
    .await
}

/// Returns whether this connection to Postgres is encrypted.
pub async fn is_encrypted(db: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS "is_encrypted!""#
    )
    .fetch_one(db)
    .await
}

/// The versions of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersions {
    /// The last applied migration.
    pub applied: i64,
    /// The last migration that this program knows.
    pub known: i64,
}

/// Returns the schema versions of the database and of this program.
pub async fn schema(pool: &PgPool) -> Result<SchemaVersions, sqlx::Error> {
    // Unchecked, because the table belongs to the migrator and is missing in the databases that the macros use.
    let applied: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(pool).await?;
    let known = migrations::newest();
    Ok(SchemaVersions { applied: applied.unwrap_or_default(), known })
}
