//! Connection pools for Postgres, and the timeouts that bound every wait at both ends.
//!
//! A program that vanishes (power loss, a stopped machine) leaves a session at Postgres that holds locks, and a
//! statement may wait for a response that never comes. So session settings make Postgres end such sessions and
//! statements, and a connection with an outstanding response is not reused.
//!
//! A Postgres that vanishes closes nothing. sqlx sets neither keepalive nor a user timeout, so the kernel here drops
//! the connection after a quarter of an hour, or never when nothing is in flight. So a connection is used only after a
//! successful ping, and callers bound their statements with [`in_time`]. Behind a pooler in transaction mode a
//! connection has no session of its own, so the role carries these settings ([`pooler`](crate::pooler)).
//!
//! One wait remains: sqlx pings a connection that returns to the pool. If its Postgres vanishes at that moment, the
//! pool lacks the connection until the kernel drops it, within two minutes where `deploy/sysctl` is installed.

use std::{future::Future, io, net::IpAddr, time::Duration};

use config::PoolerMode;
use sqlx::{
    Connection as _, PgConnection, PgPool, Row as _,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};
use tokio::time::timeout;

/// The longest wait for a connection from the pool, after which the caller reports that Postgres is unavailable.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for the ping of an idle connection; far below [`ACQUIRE_TIMEOUT`], to leave time for a new one.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest wait for outstanding responses on a connection that returns to the pool, such as those to a cancelled
/// statement or to the rollback of an abandoned transaction.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest wait for a group of statements: more than [`ACQUIRE_TIMEOUT`] plus the 15 seconds after which Postgres
/// ends a statement.
const STATEMENTS_TIMEOUT: Duration = Duration::from_secs(20);

/// The codes of transient errors: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
const UNAVAILABLE: [&str; 11] = [
    "08P01", // protocol_violation: a pooler's answer while it has no connection to Postgres
    "40001", // serialization_failure
    "40P01", // deadlock_detected
    "53300", // too_many_connections
    "55000", // object_not_in_prerequisite_state: the database takes no connections
    "55P03", // lock_not_available: also when `lock_timeout` is over
    "57014", // query_canceled: also when `statement_timeout` is over
    "57P01", // admin_shutdown
    "57P02", // crash_shutdown
    "57P03", // cannot_connect_now: it starts or stops
    "57P05", // idle_session_timeout
];

const LEASE_CONNECTIONS: u32 = 1;

/// Creates a pool for single statements that run often and outside of transactions, such as those that take leases. It
/// does not ping connections before use: on a broken connection a statement fails, and the next one uses another.
pub fn connect_for_leases(postgres: &config::Postgres, url: &str) -> Result<PgPool, sqlx::Error> {
    let pooler = postgres.pooler;
    let pool = PgPoolOptions::new()
        .max_connections(LEASE_CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(move |conn, _| Box::pin(begin_session(conn, pooler)))
        .test_before_acquire(false)
        .after_release(|conn, _| Box::pin(release(conn)));
    Ok(pool.connect_lazy_with(options(postgres, url)?))
}

/// Creates a pool that opens its connections lazily. Fails only when `url` cannot be parsed.
pub fn connect(postgres: &config::Postgres, url: &str) -> Result<PgPool, sqlx::Error> {
    open(postgres, url, postgres.pooler)
}

/// Creates a pool like [`connect`], whose connections are PostgreSQL sessions even if there is a pooler. Fails when
/// there is a pooler and `postgres.direct_url` is not set.
pub fn connect_directly(postgres: &config::Postgres) -> Result<PgPool, sqlx::Error> {
    let url = match (&postgres.direct_url, postgres.pooler) {
        (Some(direct), _) => direct,
        (None, PoolerMode::None) => &postgres.url,
        (None, PoolerMode::Transaction) => {
            return Err(sqlx::Error::Configuration(
                "set postgres.direct_url to PostgreSQL itself: migrations and backups cannot go through a pooler in transaction mode".into(),
            ));
        }
    };
    open(postgres, url, PoolerMode::None)
}

/// Connects once, to report the reason that a pool yields no connection.
pub async fn connect_once(postgres: &config::Postgres, url: &str) -> Result<(), sqlx::Error> {
    let late = || sqlx::Error::Io(io::ErrorKind::TimedOut.into());
    let connected = timeout(ACQUIRE_TIMEOUT, PgConnection::connect_with(&options(postgres, url)?)).await;
    connected.unwrap_or_else(|_| Err(late()))?.close().await
}

fn open(postgres: &config::Postgres, url: &str, pooler: PoolerMode) -> Result<PgPool, sqlx::Error> {
    let options = options(postgres, url)?;
    let pool = PgPoolOptions::new()
        .max_connections(postgres.max_connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(move |conn, _| Box::pin(begin_session(conn, pooler)))
        // sqlx's own test could use up the whole acquire timeout.
        .test_before_acquire(false)
        .before_acquire(|conn, _| Box::pin(async { Ok(is_usable(conn).await) }))
        .after_release(|conn, _| Box::pin(release(conn)));
    Ok(pool.connect_lazy_with(options))
}

fn options(postgres: &config::Postgres, url: &str) -> Result<PgConnectOptions, sqlx::Error> {
    // Poolers reject this parameter, which is unnecessary: numbers are binary, and exact as text since PostgreSQL 12.
    let mut options = url.parse::<PgConnectOptions>()?.extra_float_digits(None);
    if let Some(authority) = &postgres.ca_file {
        options = options.ssl_root_cert(authority);
        // A configured authority must be enforced: `prefer`, the default mode, accepts any certificate, or none.
        if !url.contains("sslmode=") && !url.contains("ssl-mode=") {
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
    }
    Ok(options)
}

/// Returns whether `url` has a password for a Postgres on another machine. Without TLS, anybody on the network path
/// could read it or test guesses of it.
pub fn sends_password_elsewhere(url: &str) -> bool {
    let Ok(options) = url.parse::<PgConnectOptions>() else { return false };
    let host = options.get_host();
    let is_here = options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    !is_here && password(url).is_some_and(|password| !password.is_empty())
}

/// Returns the password in a URL, still percent-encoded.
fn password(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

/// Runs statements with a timeout, which drops them with their connection because Postgres has vanished.
pub async fn in_time<T, E: From<sqlx::Error>>(statements: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let late = || sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "Postgres did not answer in time"));
    timeout(STATEMENTS_TIMEOUT, statements).await.unwrap_or_else(|_| Err(late().into()))
}

/// Returns whether the error is transient, so that a retry may succeed: Postgres is unreachable, does not respond, has
/// no free connection, or gave up waiting for a lock or another transaction.
pub fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(answer) => answer.code().is_some_and(|code| UNAVAILABLE.contains(&&*code)),
        _ => false,
    }
}

/// Pings an idle connection, and returns whether it is usable with no open transaction.
///
/// sqlx (0.9) forgets a transaction whose caller is dropped while it begins, and returns the connection to the pool
/// inside that transaction: later statements would see its effects, and be lost with the session. The two timestamps
/// are equal only outside of a transaction. An open one is rolled back; a connection in a failed one is closed.
async fn is_usable(conn: &mut PgConnection) -> bool {
    let asked = sqlx::raw_sql("SELECT transaction_timestamp() = statement_timestamp()").fetch_one(&mut *conn);
    let Ok(Ok(row)) = timeout(PING_TIMEOUT, asked).await else { return false };
    if row.try_get(0).unwrap_or(false) {
        return true;
    }
    let ended = sqlx::raw_sql("ROLLBACK").execute(conn);
    matches!(timeout(PING_TIMEOUT, ended).await, Ok(Ok(_)))
}

/// Waits for outstanding responses on a connection that returns to the pool. An error closes it.
async fn release(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
    timeout(RELEASE_TIMEOUT, conn.flush()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
}

/// Sets up a new session, unless there is a pooler, behind which the next transaction has another session.
async fn begin_session(conn: &mut PgConnection, pooler: PoolerMode) -> Result<(), sqlx::Error> {
    match pooler {
        PoolerMode::None => set_up(conn).await,
        PoolerMode::Transaction => Ok(()),
    }
}

/// Sets the session's timeouts, and turns off `jit` ([`pooler::SETTINGS`](crate::pooler::SETTINGS) has the same for a
/// role). They are not startup parameters, because poolers reject settings there.
///
/// PostgreSQL compiles a statement (`jit`) that it estimates to be expensive, which takes about 30 ms; most of our
/// statements take less than one. The estimates are poor while tables have few rows.
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

/// Removes the timeouts of this session's statements and locks, because a migration sets its own and may wait for
/// another program's. Also silences notices about objects that already exist.
pub(super) async fn lift_timeouts(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"SELECT set_config('lock_timeout', '0', false) AS "lock!",
                  set_config('statement_timeout', '0', false) AS "statement!",
                  set_config('client_min_messages', 'warning', false) AS "messages!""#
    )
    .fetch_one(conn)
    .await
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_stays_here_or_not() {
        for url in [
            "postgres://u:p@db.internal/svc",
            "postgres://u:p@10.0.0.2:5432/svc?sslmode=prefer",
            "postgres://u:p@[fd00::1]/svc",
        ] {
            assert!(sends_password_elsewhere(url), "{url}");
        }
        for url in [
            "postgres://u:p@127.0.0.1/svc",
            "postgres://u:p@[::1]/svc",
            "postgres://u:p@localhost/svc",
            "postgres://u@db.internal/svc",
            "postgres://db.internal/svc",
            "postgres://u:p@%2Frun%2Fpostgresql/svc",
        ] {
            assert!(!sends_password_elsewhere(url), "{url}");
        }
    }

    #[test]
    fn an_authority_of_ours_means_that_the_certificate_is_verified() {
        let private = config::Postgres { ca_file: Some("/etc/svc/ca.pem".into()), ..config::Postgres::default() };
        let mode = |url: &str| options(&private, url).unwrap().get_ssl_mode();
        assert!(matches!(mode("postgres://db.internal/svc"), PgSslMode::VerifyFull));
        assert!(matches!(mode("postgres://db.internal/svc?sslmode=verify-ca"), PgSslMode::VerifyCa));
        let usual = options(&config::Postgres::default(), "postgres://db.internal/svc").unwrap();
        assert!(matches!(usual.get_ssl_mode(), PgSslMode::Prefer));
    }
}
