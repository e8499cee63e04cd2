//! Detection of a pooler in transaction mode, such as `PgBouncer`, where each transaction may have another session.
//!
//! svc keeps no session state except prepared statements, which the pooler has to track. Such a pooler renames them at
//! PostgreSQL, which distinguishes it from a direct connection and from a pooler that passes names through and loses
//! statements. The settings of a direct connection's session ([`SETTINGS`]) must be set for the role instead.
//! Migrations and backups bypass the pooler ([`connect_directly`](crate::connect_directly)).

use config::PoolerMode;
use sqlx::PgPool;

/// The settings of a session: the name, the value in `ALTER ROLE … SET`, and the value in `pg_settings`.
pub const SETTINGS: [(&str, &str, &str); 4] = [
    ("idle_in_transaction_session_timeout", "5s", "5000"),
    ("lock_timeout", "3s", "3000"),
    ("statement_timeout", "15s", "15000"),
    ("jit", "off", "off"),
];

/// The reason svc does not work with its connection to PostgreSQL.
#[derive(Debug, thiserror::Error)]
pub enum PoolerError {
    /// There is an unconfigured pooler in transaction mode, so settings and locks of sessions would be lost.
    #[error(
        "there is a pooler in transaction mode between svc and PostgreSQL: set postgres.pooler = \"transaction\", and postgres.direct_url \
         to PostgreSQL itself"
    )]
    Undeclared,
    /// Prepared statements of a connection are missing in its next transaction.
    #[error(
        "postgres.pooler is \"transaction\", but what is at postgres.url keeps no prepared statements from one transaction to the next: it \
         is a pooler that is too old or not set up for it (PgBouncer can since 1.21, with max_prepared_statements), or it is PostgreSQL \
         itself, or in session mode, and the key is to be left out"
    )]
    NotKept,
    /// Prepared statements are missing like with [`Self::NotKept`], and no pooler is configured.
    #[error(
        "a prepared statement was lost between svc and PostgreSQL: the pooler at postgres.url is in transaction mode and too old or not set \
         up for prepared statements (PgBouncer can since 1.21, with max_prepared_statements); postgres.pooler = \"transaction\" is to \
         be set, too"
    )]
    Lost,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl PoolerError {
    /// Returns whether the configuration is wrong, rather than PostgreSQL unavailable.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Db(_))
    }
}

/// Compares the configured pooler with the one that the connections of `pool` actually use.
pub async fn check(configured: PoolerMode, pool: &PgPool) -> Result<(), PoolerError> {
    // The statement finds itself under sqlx's name, unless a pooler has renamed it.
    let seen = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE starts_with(name, 'sqlx_s_')) AS "is_named_by_us!""#
    )
    .fetch_one(pool)
    .await;
    match (configured, seen) {
        (PoolerMode::None, Ok(true)) | (PoolerMode::Transaction, Ok(false)) => Ok(()),
        (PoolerMode::None, Ok(false)) => Err(PoolerError::Undeclared),
        (PoolerMode::Transaction, Ok(true)) => Err(PoolerError::NotKept),
        (PoolerMode::None, Err(error)) if is_lost_statement(&error) => Err(PoolerError::Lost),
        (PoolerMode::Transaction, Err(error)) if is_lost_statement(&error) => Err(PoolerError::NotKept),
        (_, Err(error)) => Err(error.into()),
    }
}

/// Returns whether the session lacks this statement or has another one, because two transactions had different
/// sessions.
fn is_lost_statement(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["26000", "42P05"].contains(&&*code))
}

/// Returns the statements that set the missing [`SETTINGS`] for the role of these connections, in this database only.
pub async fn list_missing_settings(pool: &PgPool) -> Result<Vec<String>, sqlx::Error> {
    let names = SETTINGS.map(|(name, ..)| name.to_owned());
    let session = sqlx::query!(
        r#"SELECT quote_ident(current_user) AS "role!", quote_ident(current_database()) AS "database!", coalesce(array_agg(name || '=' || setting), '{}') AS "settings!"
           FROM pg_settings WHERE name = ANY ($1)"#,
        &names as &[String],
    )
    .fetch_one(pool)
    .await?;
    let is_missing = |name: &str, shown: &str| !session.settings.contains(&format!("{name}={shown}"));
    let missing = SETTINGS.iter().filter(|(name, _, shown)| is_missing(name, shown));
    let (role, database) = (&session.role, &session.database);
    Ok(missing
        .map(|(name, value, _)| format!("ALTER ROLE {role} IN DATABASE {database} SET {name} = '{value}';"))
        .collect())
}
