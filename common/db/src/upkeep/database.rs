//! What tells this database from others, and a copy that took its place from the one that was lost.

use sqlx::PgPool;

/// Returns the name that the database was given when its tables were made. A copy of the database has the same.
pub async fn name(pool: &PgPool) -> Result<String, sqlx::Error> {
    sqlx::query_scalar!("SELECT name FROM database_name").fetch_one(pool).await
}

/// Returns the history that the database's commits go into: another one after a copy was promoted or a backup restored, which may
/// lack the last commits of the former. Returns nothing from a server that only follows another.
///
/// In letters, digits and dashes. PostgreSQL allows every role to ask for it.
pub async fn history(pool: &PgPool) -> Result<Option<String>, sqlx::Error> {
    // A segment of the log is named by its timeline first. That of the last checkpoint may be a former one for some minutes.
    sqlx::query_scalar!(
        "SELECT CASE WHEN pg_is_in_recovery() THEN NULL
                     ELSE system_identifier::text || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END
         FROM pg_control_system()"
    )
    .fetch_one(pool)
    .await
}

/// Whether [`history`] failed because this server keeps it from this role.
pub fn is_denied(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    // The role may not, or there is no such function.
    code.is_some_and(|code| matches!(&*code, "42501" | "42883"))
}
