//! What the database knows of the parts beside it: its packs, the value that its master key has sealed, what it took over from
//! another database; and what an operator wants to know of its server.

use domain::{DeploymentId, Timestamp};
use sqlx::{PgExecutor, PgPool};

use crate::migrations;

/// The one row of `master_key_checks`.
pub const CHECK: &str = "check";

/// Whether an error means that a table of this program's version is missing: the database is new, or no admin of this version has
/// migrated it yet.
pub fn is_unmigrated(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == "42P01")
}

/// Whether an admin of this version, or a later one, has migrated the database.
pub async fn is_migrated(db: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT to_regclass('take_overs') IS NOT NULL AS "is_there!""#).fetch_one(db).await
}

/// Returns the value that the master key has sealed, if some program has written it.
pub async fn sealed_check(db: impl PgExecutor<'_>) -> Result<Option<Vec<u8>>, sqlx::Error> {
    sqlx::query_scalar!("SELECT sealed_check FROM master_key_checks WHERE id = $1", CHECK).fetch_optional(db).await
}

/// Writes the sealed value unless there is one.
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

/// Whether the database has a record of any of these deployments.
pub async fn knows_any(db: impl PgExecutor<'_>, ids: &[DeploymentId]) -> Result<bool, sqlx::Error> {
    let ids: Vec<String> = ids.iter().map(DeploymentId::to_string).collect();
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM deployments WHERE id = ANY($1)) AS "knows!""#, &ids)
        .fetch_one(db)
        .await
}

/// Returns the newest deployments that have packs, at most `limit`.
pub async fn newest_packs(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT id FROM deployments WHERE status IN ('live', 'superseded') ORDER BY id DESC LIMIT $1",
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns when this database took `part` over from the database `former_name`, if it did.
pub async fn taken_over_at(
    db: impl PgExecutor<'_>,
    part: &str,
    former_name: &str,
) -> Result<Option<Timestamp>, sqlx::Error> {
    sqlx::query_scalar!("SELECT taken_at FROM take_overs WHERE part = $1 AND former_name = $2", part, former_name)
        .fetch_optional(db)
        .await
}

/// Notes that this database took `part` over from the database `former_name`.
pub async fn note_take_over(
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

/// What Postgres says of itself and of this connection.
#[derive(Debug)]
pub struct Server {
    /// The version, such as `15.9`.
    pub version: String,
    /// Whether this connection is encrypted.
    pub is_encrypted: bool,
    /// Connections that are open, of all programs and databases.
    pub connections: i64,
    /// Connections that may be open.
    pub max_connections: i64,
    /// Whether the server follows another, and takes no writes.
    pub is_in_recovery: bool,
    /// The server's time.
    pub now: Timestamp,
}

/// Asks Postgres about itself and this connection.
pub async fn server(db: impl PgExecutor<'_>) -> Result<Server, sqlx::Error> {
    sqlx::query_as!(
        Server,
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

/// Whether this connection to Postgres is encrypted.
pub async fn is_encrypted(db: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS "is_encrypted!""#
    )
    .fetch_one(db)
    .await
}

/// The versions of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// The last migration that the database has.
    pub applied: i64,
    /// The last one that this program knows.
    pub known: i64,
}

/// Compares the schema of the database with this program's.
pub async fn schema(pool: &PgPool) -> Result<Schema, sqlx::Error> {
    // The table is the migrator's own: the databases that the macros are checked against have none.
    let applied: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(pool).await?;
    let known = migrations::newest();
    Ok(Schema { applied: applied.unwrap_or_default(), known })
}
