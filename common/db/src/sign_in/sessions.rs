//! Web sessions, found by the hash of their secret, which itself is not stored.

use domain::{
    SessionId, Timestamp, UserId,
    changes::PendingChange,
    limits::{SESSION_IDLE, SESSION_LIFE, SESSION_USE_NOTED_EVERY, SESSIONS_PER_USER},
};
use sqlx::{PgConnection, PgExecutor, PgPool};

use crate::sign_in::users::User;

/// A session, as shown to its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The id.
    pub id: SessionId,
    /// The browser that started it.
    pub browser: String,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time of the last use, to within a few minutes.
    pub last_used_at: Timestamp,
}

/// Begins a session. Returns whether it ended the user's oldest sessions, of which [`SESSIONS_PER_USER`] are kept: their
/// visits to gated sites then have to [end](end_visits) too.
pub async fn create(
    conn: &mut PgConnection,
    user: &UserId,
    secret_hash: &[u8; 32],
    browser: &str,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let id = SessionId::new(now);
    sqlx::query!(
        "INSERT INTO sessions (id, user_id, secret_hash, browser, created_at, last_used_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $5, $6)",
        id.as_str(),
        user.as_str(),
        secret_hash,
        browser,
        now,
        (now + SESSION_IDLE),
    )
    .execute(&mut *conn)
    .await?;
    let ended = sqlx::query!(
        "DELETE FROM sessions WHERE user_id = $1 AND id NOT IN
             (SELECT id FROM sessions WHERE user_id = $1 ORDER BY id DESC LIMIT $2)",
        user.as_str(),
        SESSIONS_PER_USER,
    )
    .execute(conn)
    .await?;
    Ok(ended.rows_affected() > 0)
}

/// Returns the unended session with a secret and its user, and records its use.
pub async fn find(
    pool: &PgPool,
    secret_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<(Session, User)>, sqlx::Error> {
    let row = sqlx::query!(
        "SELECT s.id, s.browser, s.created_at,
                  s.last_used_at, u.id AS user_id, u.vcs_id, u.vcs_login, u.email,
                  u.created_at AS user_created_at
           FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.secret_hash = $1 AND s.expires_at > $2",
        secret_hash,
        now,
    )
    .fetch_optional(pool)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let session =
        Session { id: row.id, browser: row.browser, created_at: row.created_at, last_used_at: row.last_used_at };
    if now.since(session.last_used_at) >= SESSION_USE_NOTED_EVERY {
        let end = (now + SESSION_IDLE).min(session.created_at + SESSION_LIFE);
        sqlx::query!(
            "UPDATE sessions SET last_used_at = $2, expires_at = $3 WHERE id = $1",
            session.id.as_str(),
            now,
            end,
        )
        .execute(pool)
        .await?;
    }
    let user = User {
        id: row.user_id,
        vcs_id: row.vcs_id,
        vcs_login: row.vcs_login,
        email: row.email,
        created_at: row.user_created_at,
    };
    Ok(Some((session, user)))
}

/// Returns at most [`SESSIONS_PER_USER`] sessions of a user, newest first.
pub async fn list_for_user(
    db: impl PgExecutor<'_>,
    user: &UserId,
    now: Timestamp,
) -> Result<Vec<Session>, sqlx::Error> {
    sqlx::query_as!(
        Session,
        "SELECT id, browser, created_at,
                  last_used_at
           FROM sessions WHERE user_id = $1 AND expires_at > $2 ORDER BY id DESC LIMIT $3",
        user.as_str(),
        now,
        SESSIONS_PER_USER,
    )
    .fetch_all(db)
    .await
}

/// A session that was ended.
#[derive(Debug)]
pub struct EndedSession {
    /// The browser that had started it.
    pub browser: String,
    /// What edges have to forget.
    pub touched: PendingChange,
}

/// Ends one of a user's sessions, and their visits to gated sites: a badge of such a site does not say which session it
/// came from. The other sessions get new badges when they next visit. Returns `None` when the user has no such session.
pub async fn end(conn: &mut PgConnection, user: &UserId, id: &SessionId) -> Result<Option<EndedSession>, sqlx::Error> {
    let browser = sqlx::query_scalar!(
        "DELETE FROM sessions WHERE id = $1 AND user_id = $2 RETURNING browser",
        id.as_str(),
        user.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(browser) = browser else { return Ok(None) };
    Ok(Some(EndedSession { browser, touched: end_visits(conn, user).await? }))
}

/// Ends the session with a secret, and returns its user.
pub async fn end_by_secret(db: impl PgExecutor<'_>, secret_hash: &[u8; 32]) -> Result<Option<UserId>, sqlx::Error> {
    sqlx::query_scalar!("DELETE FROM sessions WHERE secret_hash = $1 RETURNING user_id", secret_hash)
        .fetch_optional(db)
        .await
}

/// Returns whether a session is still valid.
pub async fn is_live(db: impl PgExecutor<'_>, id: &SessionId, now: Timestamp) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM sessions WHERE id = $1 AND expires_at > $2) AS "live!""#,
        id.as_str(),
        now,
    )
    .fetch_one(db)
    .await
}

/// Signs a user out everywhere: of the console, and of every gated site that admitted them.
pub async fn end_all(conn: &mut PgConnection, user: &UserId) -> Result<PendingChange, sqlx::Error> {
    sqlx::query!("DELETE FROM sessions WHERE user_id = $1", user.as_str()).execute(&mut *conn).await?;
    end_visits(conn, user).await
}

/// Ends a user's visits to gated sites, on every edge that applies the change.
pub async fn end_visits(conn: &mut PgConnection, user: &UserId) -> Result<PendingChange, sqlx::Error> {
    sqlx::query!("DELETE FROM gate_tickets WHERE user_id = $1", user.as_str()).execute(&mut *conn).await?;
    sqlx::query!("UPDATE users SET gate_version = gate_version + 1 WHERE id = $1", user.as_str())
        .execute(&mut *conn)
        .await?;
    Ok(PendingChange::new(user))
}

/// Deletes at most `limit` ended sessions, and returns their number.
pub async fn delete_expired(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM sessions WHERE id IN
             (SELECT id FROM sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        now,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
