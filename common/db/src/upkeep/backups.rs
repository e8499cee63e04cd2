//! The database's part of a backup: a snapshot shared with `pg_dump`, the list of packs, and the record of the backup.

use domain::{DeploymentId, Timestamp};
use secrets::master_key::TAG_LEN;
use sqlx::{PgExecutor, PgPool, Postgres, pool::PoolConnection};

use super::sealed::Column;

/// The lease for making and pruning backups, one at a time.
pub const BACK_UP: &str = "back up";
/// The lease of the job that moves packs to the trash. A backup holds it, so that the packs of its snapshot are kept.
pub const TRASH_PACKS: &str = "move packs to the trash";

/// A snapshot of the database, as a transaction that sees everything committed before it began and ends with the value.
pub struct DatabaseSnapshot {
    conn: PoolConnection<Postgres>,
    id: String,
}

/// A snapshot's description of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The database's name; see [`database::name`](super::database::name).
    pub name: String,
    /// The newest migration.
    pub schema: i64,
    /// The major version of the server.
    pub server: i32,
    /// The key tags of the sealed values, which identify the keys needed to open them.
    pub sealed_by: Vec<[u8; TAG_LEN]>,
    /// The roles, other than the owner, with rights on tables, functions and the schema.
    pub roles: Vec<String>,
}

/// A completed backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeBackup {
    /// The backup's name at its location.
    pub name: String,
    /// The time of its snapshot.
    pub began_at: Timestamp,
    /// The time it was complete.
    pub ended_at: Timestamp,
    /// The URL of the location.
    pub place: String,
    /// The number of packs.
    pub packs: i64,
    /// The size of its packs and its dump in bytes.
    pub bytes: i64,
    /// The bytes that were not at the location before.
    pub copied_bytes: i64,
}

impl DatabaseSnapshot {
    /// Begins a snapshot, which other sessions can share by its [id](Self::id).
    pub async fn begin(pool: &PgPool) -> Result<Self, sqlx::Error> {
        let mut conn = pool.acquire().await?;
        // The connection gets settings of its own, and the transaction ends with it.
        conn.close_on_drop();
        crate::connections::lift_timeouts(&mut conn).await?;
        // The session is idle while `pg_dump` works.
        sqlx::query!(r#"SELECT set_config('idle_in_transaction_session_timeout', '0', false) AS "idle!""#)
            .fetch_one(&mut *conn)
            .await?;
        sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").execute(&mut *conn).await?;
        let id = sqlx::query_scalar!(r#"SELECT pg_export_snapshot() AS "id!""#).fetch_one(&mut *conn).await?;
        Ok(Self { conn, id })
    }

    /// Returns the id by which another session shares the snapshot.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Describes the database.
    pub async fn describe(&mut self) -> Result<SnapshotInfo, sqlx::Error> {
        let conn = &mut *self.conn;
        let name = sqlx::query_scalar!("SELECT name FROM database_name").fetch_one(&mut *conn).await?;
        let schema = schema(&mut *conn).await?.unwrap_or_default();
        let server = sqlx::query_scalar!(r#"SELECT current_setting('server_version_num')::int / 10000 AS "major!""#)
            .fetch_one(&mut *conn)
            .await?;
        let mut sealed_by = Vec::new();
        for column in Column::ALL {
            sealed_by.extend(column.tags(&mut *conn).await?);
        }
        sealed_by.sort_unstable();
        sealed_by.dedup();
        let roles = sqlx::query_scalar!(
            r#"SELECT DISTINCT r.rolname::text AS "role!" FROM (
                   SELECT (aclexplode(relacl)).grantee, relowner AS owner FROM pg_class
                     WHERE relnamespace = 'public'::regnamespace
                   UNION ALL SELECT (aclexplode(proacl)).grantee, proowner FROM pg_proc
                     WHERE pronamespace = 'public'::regnamespace
                   UNION ALL SELECT (aclexplode(nspacl)).grantee, nspowner FROM pg_namespace WHERE nspname = 'public'
                   UNION ALL SELECT (aclexplode(defaclacl)).grantee, defaclrole FROM pg_default_acl
               ) held JOIN pg_roles r ON r.oid = held.grantee
               WHERE held.grantee <> held.owner AND r.rolname NOT LIKE 'pg\_%' ORDER BY 1"#
        )
        .fetch_all(&mut *conn)
        .await?;
        Ok(SnapshotInfo { name, schema, server, sealed_by, roles })
    }

    /// Returns the deployments whose packs are needed, ordered by id.
    pub async fn packs(&mut self) -> Result<Vec<DeploymentId>, sqlx::Error> {
        sqlx::query_scalar!("SELECT id FROM deployments WHERE status IN ('live', 'superseded') ORDER BY id")
            .fetch_all(&mut *self.conn)
            .await
    }
}

impl std::fmt::Debug for DatabaseSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Returns the newest migration of the database; `None` before the first.
pub async fn schema(db: impl PgExecutor<'_>) -> Result<Option<i64>, sqlx::Error> {
    // Not checked at compile time, because the table belongs to the migrator.
    sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(db).await
}

/// Records a completed backup.
pub async fn record(db: impl PgExecutor<'_>, made: &MadeBackup) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO backups (name, began_at, ended_at, place, packs, bytes, copied_bytes)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        made.name,
        made.began_at,
        made.ended_at,
        made.place,
        made.packs,
        made.bytes,
        made.copied_bytes,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns the time of the last backup's snapshot.
pub async fn last(db: impl PgExecutor<'_>) -> Result<Option<Timestamp>, sqlx::Error> {
    sqlx::query_scalar!("SELECT began_at FROM backups ORDER BY began_at DESC LIMIT 1").fetch_optional(db).await
}

/// Deletes the records of backups older than `before`, except the last one.
pub async fn delete_records(db: impl PgExecutor<'_>, before: Timestamp) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query!(
        "DELETE FROM backups WHERE began_at < $1 AND began_at < (SELECT max(began_at) FROM backups)",
        before,
    )
    .execute(db)
    .await?;
    Ok(forgotten.rows_affected())
}
