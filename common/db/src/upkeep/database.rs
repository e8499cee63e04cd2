//! The identity of the database: its name, its history, and the id that distinguishes it from its copies.

use std::fmt;

use sqlx::PgPool;

/// Returns the name that the database got when its tables were created. Copies of the database have the same name.
pub async fn name(pool: &PgPool) -> Result<String, sqlx::Error> {
    sqlx::query_scalar!("SELECT name FROM database_name").fetch_one(pool).await
}

/// Returns the id of the database's commit history, in letters, digits and dashes; `None` on a replica. It changes when
/// a replica is promoted or a backup restored, which may lack the last commits of the former.
///
/// By default, PostgreSQL lets every role read it.
pub async fn history(pool: &PgPool) -> Result<Option<String>, sqlx::Error> {
    // A WAL segment's name begins with its timeline. That of the last checkpoint may be outdated for some minutes.
    sqlx::query_scalar!(
        "SELECT CASE WHEN pg_is_in_recovery() THEN NULL
                     ELSE system_identifier::text || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END
         FROM pg_control_system()"
    )
    .fetch_one(pool)
    .await
}

/// Returns whether [`history`] failed because this server does not let this role read it.
pub fn is_denied(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    // The role may not call the function, or there is no such function.
    code.is_some_and(|code| matches!(&*code, "42501" | "42883"))
}

/// The id of a database among its copies: the identifier of its server, and its number there. A promoted replica keeps
/// both; a dump restored elsewhere, or next to the original, has another id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyId {
    /// The server's identifier; `None` where Postgres does not let this role read it.
    system: Option<String>,
    oid: i64,
}

impl CopyId {
    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let (system, oid) = text.rsplit_once('-')?;
        Some(Self { system: (!system.is_empty()).then(|| system.to_owned()), oid: oid.parse().ok()? })
    }

    /// Returns whether both are the same database. If either server is unknown, the number decides.
    pub fn is_same(&self, other: &Self) -> bool {
        self.oid == other.oid && (self.system.is_none() || other.system.is_none() || self.system == other.system)
    }

    /// Returns whether both are databases of the same server, which both know.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.system.is_some() && self.system == other.system
    }
}

impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.system.as_deref().unwrap_or_default(), self.oid)
    }
}

/// Returns this database's id among its copies.
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

/// Returns whether the server has the database `copy`, which must be [beside](CopyId::is_beside) this one.
pub async fn exists(pool: &PgPool, copy: &CopyId) -> Result<bool, sqlx::Error> {
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
