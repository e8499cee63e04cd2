//! What tells this database from others, and a copy that took its place from the one that was lost.

use std::fmt;

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

/// What tells a database from its copies: the identifier of its server, and its number there. A server that was promoted in the place of
/// another keeps both; a dump that is restored elsewhere, or beside the original, has another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyId {
    /// The server's identifier; `None` where Postgres keeps it from this role.
    system: Option<String>,
    oid: i64,
}

impl CopyId {
    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let (system, oid) = text.rsplit_once('-')?;
        Some(Self { system: (!system.is_empty()).then(|| system.to_owned()), oid: oid.parse().ok()? })
    }

    /// Whether both are the same database. Where one of them does not know its server, the number decides.
    pub fn is_same(&self, other: &Self) -> bool {
        self.oid == other.oid && (self.system.is_none() || other.system.is_none() || self.system == other.system)
    }

    /// Whether both are databases of one server, which both know.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.system.is_some() && self.system == other.system
    }
}

impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.system.as_deref().unwrap_or_default(), self.oid)
    }
}

/// Returns what tells this database from its copies.
pub async fn copy_id(pool: &PgPool) -> Result<CopyId, sqlx::Error> {
    let oid =
        sqlx::query_scalar!(r#"SELECT oid::bigint AS "oid!" FROM pg_database WHERE datname = current_database()"#)
            .fetch_one(pool)
            .await?;
    let system = sqlx::query_scalar!(r#"SELECT system_identifier::text AS "system!" FROM pg_control_system()"#)
        .fetch_one(pool)
        .await;
    match system {
        Ok(system) => Ok(CopyId { system: Some(system), oid }),
        Err(error) if is_denied(&error) => Ok(CopyId { system: None, oid }),
        Err(error) => Err(error),
    }
}

/// Whether the server has the database of this number. Ask for one that is [beside](CopyId::is_beside) this one.
pub async fn is_there(pool: &PgPool, copy: &CopyId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM pg_database WHERE oid::bigint = $1) AS "is_there!""#, copy.oid)
        .fetch_one(pool)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_told_from_its_original_as_far_as_the_server_says() {
        let of = |text: &str| CopyId::parse(text).unwrap();
        assert_eq!(of("7123-16384").to_string(), "7123-16384");
        assert_eq!(of("-16384").to_string(), "-16384");
        assert!(of("7123-16384").is_same(&of("7123-16384")) && of("7123-16384").is_same(&of("-16384")));
        assert!(!of("7123-16384").is_same(&of("7123-16385")) && !of("7123-16384").is_same(&of("8-16384")));
        assert!(of("7123-1").is_beside(&of("7123-2")) && !of("-1").is_beside(&of("-2")));
        assert!(CopyId::parse("nonsense").is_none() && CopyId::parse("").is_none());
    }
}
