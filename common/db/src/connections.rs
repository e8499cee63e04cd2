//! The connections to Postgres: what bounds their waits, at both ends, and that none of their statements is compiled.
//!
//! A program that vanishes (its machine lost power, it was stopped) leaves a session at Postgres that holds locks, and a
//! statement of a program waits for an answer that may never come. So Postgres ends such sessions and statements by these
//! settings, and a connection whose last answer is outstanding is not used again.

use std::time::Duration;

use sqlx::{
    Connection as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::time::timeout;

/// Longest wait for a connection from the pool; beyond it the caller reports that Postgres is away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for what is outstanding on a connection that comes back to the pool. A caller that gave up leaves an
/// answer outstanding, and one that began a transaction leaves its end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes a pool whose connections are opened when first needed. Fails only when `url` cannot be parsed.
pub fn connect(postgres: &config::Postgres, url: &str) -> Result<PgPool, sqlx::Error> {
    let options: PgConnectOptions = url.parse()?;
    let pool = PgPoolOptions::new()
        .max_connections(postgres.max_connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(|conn, _| Box::pin(set_up(conn)))
        .after_release(|conn, _| {
            Box::pin(async {
                // An error closes the connection.
                timeout(RELEASE_TIMEOUT, conn.flush()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
            })
        });
    Ok(pool.connect_lazy_with(options))
}

/// Tells Postgres how long this session may wait, and to compile nothing. Not with the connection's first message, which poolers
/// in between refuse when it holds settings.
///
/// Postgres compiles a statement (`jit`) that it takes for dear, for some 30 ms. Our statements take less than one, most of them, and
/// what they are taken for depends on what Postgres knows of the tables: little, as long as they have just a few rows.
async fn set_up(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"SELECT set_config('idle_in_transaction_session_timeout', '5s', false) AS "idle!",
                  set_config('lock_timeout', '3s', false) AS "lock!",
                  set_config('statement_timeout', '15s', false) AS "statement!",
                  set_config('tcp_keepalives_idle', '10', false) AS "keepalive!",
                  set_config('tcp_keepalives_interval', '5', false) AS "interval!",
                  set_config('tcp_keepalives_count', '3', false) AS "count!",
                  set_config('tcp_user_timeout', '10000', false) AS "user_timeout!",
                  set_config('jit', 'off', false) AS "jit!""#
    )
    .fetch_one(conn)
    .await
    .map(drop)
}

/// Lifts the bounds of this session's statements and locks: a migration sets its own, and may wait for another program's.
pub(super) async fn take_any_time(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"SELECT set_config('lock_timeout', '0', false) AS "lock!",
                  set_config('statement_timeout', '0', false) AS "statement!""#
    )
    .fetch_one(conn)
    .await
    .map(drop)
}
