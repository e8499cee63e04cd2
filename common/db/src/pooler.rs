//! A pooler in transaction mode between svc and PostgreSQL, such as `PgBouncer`: a connection has another session in each transaction.
//!
//! svc keeps nothing in a session but prepared statements, which the pooler has to know. Such a pooler has names of its own for them at
//! PostgreSQL, which is how it is told from a direct connection and from one that passes names through and loses statements. What
//! a direct connection sets for its session ([`SETTINGS`]) has to be set for the role. Not here: migrations and backups, which go around
//! the pooler ([`connect_directly`](crate::connect_directly)).

use config::Pooler;
use sqlx::PgPool;

/// The settings of a session, their values as `ALTER ROLE … SET` takes them, and as `pg_settings` shows them.
pub const SETTINGS: [(&str, &str, &str); 4] = [
    ("idle_in_transaction_session_timeout", "5s", "5000"),
    ("lock_timeout", "3s", "3000"),
    ("statement_timeout", "15s", "15000"),
    ("jit", "off", "off"),
];

/// Why svc does not work with what is between it and PostgreSQL.
#[derive(Debug, thiserror::Error)]
pub enum PoolerError {
    /// There is a pooler in transaction mode that is not configured, so that settings and locks of sessions would go astray.
    #[error(
        "there is a pooler in transaction mode between svc and PostgreSQL: set postgres.pooler = \"transaction\", and postgres.direct_url \
         to PostgreSQL itself"
    )]
    Undeclared,
    /// Statements that were prepared on a connection are not there in its next transaction.
    #[error(
        "postgres.pooler is \"transaction\", but what is at postgres.url keeps no prepared statements from one transaction to the next: it \
         is a pooler that is too old or not set up for it (PgBouncer can since 1.21, with max_prepared_statements), or it is PostgreSQL \
         itself, or in session mode, and the key is to be left out"
    )]
    NotKept,
    /// As [`Self::NotKept`], where no pooler is configured.
    #[error(
        "a prepared statement was lost between svc and PostgreSQL: the pooler at postgres.url is in transaction mode and too old or not set \
         up for prepared statements (PgBouncer can since 1.21, with max_prepared_statements); postgres.pooler = \"transaction\" is to \
         be set, too"
    )]
    Lost,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl PoolerError {
    /// Whether the configuration is wrong, rather than PostgreSQL away.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Db(_))
    }
}

/// Compares what is configured with what the connections of `pool` go through.
pub async fn check(configured: Pooler, pool: &PgPool) -> Result<(), PoolerError> {
    // The statement sees itself. sqlx has named it.
    let seen = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE starts_with(name, 'sqlx_s_')) AS "is_named_by_us!""#
    )
    .fetch_one(pool)
    .await;
    match (configured, seen) {
        (Pooler::None, Ok(true)) | (Pooler::Transaction, Ok(false)) => Ok(()),
        (Pooler::None, Ok(false)) => Err(PoolerError::Undeclared),
        (Pooler::Transaction, Ok(true)) => Err(PoolerError::NotKept),
        (Pooler::None, Err(error)) if is_lost_statement(&error) => Err(PoolerError::Lost),
        (Pooler::Transaction, Err(error)) if is_lost_statement(&error) => Err(PoolerError::NotKept),
        (_, Err(error)) => Err(error.into()),
    }
}

/// Whether the session has no statement of this name, or has another one: two transactions of a connection had different sessions.
fn is_lost_statement(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| ["26000", "42P05"].contains(&&*code))
}

/// Returns the statements that give the role of these connections those of the [`SETTINGS`] that it lacks, in this database alone.
pub async fn missing_settings(pool: &PgPool) -> Result<Vec<String>, sqlx::Error> {
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
