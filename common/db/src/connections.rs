//! The connections to Postgres: what bounds their waits, at both ends, and that none of their statements is compiled.
//!
//! A program that vanishes (its machine lost power, it was stopped) leaves a session at Postgres that holds locks, and a
//! statement of a program waits for an answer that may never come. So Postgres ends such sessions and statements by these
//! settings, and a connection whose last answer is outstanding is not used again.
//!
//! A Postgres that vanishes ends nothing, and the kernel here gives its connections up after a quarter of an hour, or never
//! where nothing is on its way: sqlx sets neither keepalive nor a user timeout. So a connection is used only after it has
//! answered, and whoever waits for statements gives them up by himself: [`in_time`]. Behind a pooler in transaction mode a connection
//! has no session of its own, so that the role brings these settings along ([`pooler`](crate::pooler)). One wait is beyond us: sqlx asks a connection
//! that comes back for a sign of life, and one whose Postgres vanishes in that moment is missing in the pool until the kernel
//! gives it up: within two minutes where `deploy/sysctl` is installed.

use std::{future::Future, io, net::IpAddr, time::Duration};

use config::Pooler;
use sqlx::{
    Connection as _, PgConnection, PgPool, Row as _,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};
use tokio::time::timeout;

/// Longest wait for a connection from the pool; beyond it the caller reports that Postgres is away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the sign of life of a connection that was idle. Far below [`ACQUIRE_TIMEOUT`], so that time is left for a
/// new one.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for what is outstanding on a connection that comes back to the pool. A caller that gave up leaves an
/// answer outstanding, and one that began a transaction leaves its end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for statements that belong together: beyond [`ACQUIRE_TIMEOUT`] and the 15 seconds after which Postgres itself
/// ends a statement.
const STATEMENTS_TIMEOUT: Duration = Duration::from_secs(20);

/// The codes of errors that are over by themselves: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
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

/// Connections for statements by which an admin takes leases.
const LEASE_CONNECTIONS: u32 = 1;

/// Makes a pool for statements that run often, alone, and never within a transaction, such as those that take leases: its connections are
/// used without a question before each. Where one has broken, a statement fails, and the next one is sent over another.
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

/// Makes a pool whose connections are opened when first needed. Fails only when `url` cannot be parsed.
pub fn connect(postgres: &config::Postgres, url: &str) -> Result<PgPool, sqlx::Error> {
    open(postgres, url, postgres.pooler)
}

/// Makes a pool as [`connect`] does, whose connections are sessions of PostgreSQL even where there is a pooler in between. Fails when there
/// is one and no way around it is configured.
pub fn connect_directly(postgres: &config::Postgres) -> Result<PgPool, sqlx::Error> {
    let url = match (&postgres.direct_url, postgres.pooler) {
        (Some(direct), _) => direct,
        (None, Pooler::None) => &postgres.url,
        (None, Pooler::Transaction) => {
            return Err(sqlx::Error::Configuration(
                "set postgres.direct_url to PostgreSQL itself: migrations and backups cannot go through a pooler in transaction mode".into(),
            ));
        }
    };
    open(postgres, url, Pooler::None)
}

/// Connects once, and fails for the reason for which a pool gives no connection.
pub async fn connect_once(postgres: &config::Postgres, url: &str) -> Result<(), sqlx::Error> {
    let late = || sqlx::Error::Io(io::ErrorKind::TimedOut.into());
    let connected = timeout(ACQUIRE_TIMEOUT, PgConnection::connect_with(&options(postgres, url)?)).await;
    connected.unwrap_or_else(|_| Err(late()))?.close().await
}

fn open(postgres: &config::Postgres, url: &str, pooler: Pooler) -> Result<PgPool, sqlx::Error> {
    let options = options(postgres, url)?;
    let pool = PgPoolOptions::new()
        .max_connections(postgres.max_connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(move |conn, _| Box::pin(begin_session(conn, pooler)))
        // Instead of sqlx's own test, which would use up the whole wait for a connection.
        .test_before_acquire(false)
        .before_acquire(|conn, _| Box::pin(async { Ok(is_usable(conn).await) }))
        .after_release(|conn, _| Box::pin(release(conn)));
    Ok(pool.connect_lazy_with(options))
}

fn options(postgres: &config::Postgres, url: &str) -> Result<PgConnectOptions, sqlx::Error> {
    // Poolers refuse this parameter. Numbers are exchanged in binary, and as text since PostgreSQL 12 without a loss.
    let mut options = url.parse::<PgConnectOptions>()?.extra_float_digits(None);
    if let Some(authority) = &postgres.ca_file {
        options = options.ssl_root_cert(authority);
        // An authority that nothing is held to would be of no use: `prefer`, the usual mode, takes any certificate, or none.
        if !url.contains("sslmode=") && !url.contains("ssl-mode=") {
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
    }
    Ok(options)
}

/// Whether `url` has a password for a Postgres on another machine. Without TLS it goes over the network for anybody to see, or to try
/// guesses at.
pub fn sends_password_elsewhere(url: &str) -> bool {
    let Ok(options) = url.parse::<PgConnectOptions>() else { return false };
    let host = options.get_host();
    let is_here = options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    !is_here && password(url).is_some_and(|password| !password.is_empty())
}

/// The password in a URL, as it is written there.
fn password(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

/// Waits for statements as long as they may take, and then gives them up with the connection that they have: Postgres has
/// vanished while they were under way.
pub async fn in_time<T, E: From<sqlx::Error>>(statements: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let late = || sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "Postgres did not answer in time"));
    timeout(STATEMENTS_TIMEOUT, statements).await.unwrap_or_else(|_| Err(late().into()))
}

/// Whether the error says nothing against the statement, and trying it again may help: Postgres cannot be reached, does not answer, has
/// no connection left, or gave up because somebody else held what the statement waited for.
pub fn is_unavailable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(answer) => answer.code().is_some_and(|code| UNAVAILABLE.contains(&&*code)),
        _ => false,
    }
}

/// Whether Postgres answers on a connection that was idle; from then on no transaction is open on it.
///
/// sqlx (0.9) forgets a transaction whose caller leaves while it begins: the connection comes back to the pool within it. Whatever
/// others did on it would be theirs to see, and lost with the session. Only outside of a transaction does a statement begin when its
/// transaction does. One that is open is rolled back; a connection in one that has failed is closed.
async fn is_usable(conn: &mut PgConnection) -> bool {
    let asked = sqlx::raw_sql("SELECT transaction_timestamp() = statement_timestamp()").fetch_one(&mut *conn);
    let Ok(Ok(row)) = timeout(PING_TIMEOUT, asked).await else { return false };
    if row.try_get(0).unwrap_or(false) {
        return true;
    }
    let ended = sqlx::raw_sql("ROLLBACK").execute(conn);
    matches!(timeout(PING_TIMEOUT, ended).await, Ok(Ok(_)))
}

/// Waits for what is outstanding on a connection that comes back. An error closes it.
async fn release(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
    timeout(RELEASE_TIMEOUT, conn.flush()).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
}

/// Makes a new connection a session of ours, where it is one: behind a pooler it would be another connection's with the next transaction.
async fn begin_session(conn: &mut PgConnection, pooler: Pooler) -> Result<(), sqlx::Error> {
    match pooler {
        Pooler::None => set_up(conn).await,
        Pooler::Transaction => Ok(()),
    }
}

/// Tells Postgres how long this session may wait, and to compile nothing ([`pooler::SETTINGS`](crate::pooler::SETTINGS) has the same for
/// a role). Not with the connection's first message, which poolers
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

/// Lifts the bounds of this session's statements and locks: a migration sets its own, and may wait for another program's. Its notices of
/// what is there already are for nobody.
pub(super) async fn take_any_time(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
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
