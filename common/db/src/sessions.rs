//! Sessions on the web: found by the hash of their secret, which is all that is kept of it.

use domain::{
    SessionId, Timestamp, UserId,
    changes::Touched,
    limits::{SESSION_IDLE, SESSION_LIFE, SESSION_USE_NOTED_EVERY, SESSIONS_PER_USER},
};
use sqlx::{PgConnection, PgExecutor, PgPool};

use super::users::User;

/// A session as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The browser it was begun with.
    pub browser: String,
    /// When the person signed in.
    pub created_at: Timestamp,
    /// When it was used last, about.
    pub last_used_at: Timestamp,
}

/// Begins a session.
pub async fn create(
    conn: &mut PgConnection,
    user: &UserId,
    secret_hash: &[u8; 32],
    browser: &str,
    now: Timestamp,
) -> Result<SessionId, sqlx::Error> {
    let id = SessionId::new(now);
    sqlx::query!(
        "INSERT INTO sessions (id, user_id, secret_hash, browser, created_at, last_used_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $5, $6)",
        id.as_str(),
        user.as_str(),
        secret_hash,
        browser,
        now as Timestamp,
        (now + SESSION_IDLE) as Timestamp,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "DELETE FROM sessions WHERE user_id = $1 AND id NOT IN
             (SELECT id FROM sessions WHERE user_id = $1 ORDER BY id DESC LIMIT $2)",
        user.as_str(),
        SESSIONS_PER_USER,
    )
    .execute(conn)
    .await?;
    Ok(id)
}

/// The session behind a secret, and whose it is; notes its use. None when there is none, or not any more.
pub async fn find(
    pool: &PgPool,
    secret_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<(Session, User)>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT s.id AS "id: SessionId", s.browser, s.created_at AS "created_at: Timestamp",
                  s.last_used_at AS "last_used_at: Timestamp", u.id AS "user_id: UserId", u.vcs_id, u.vcs_login, u.email,
                  u.created_at AS "user_created_at: Timestamp"
           FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.secret_hash = $1 AND s.expires_at > $2"#,
        secret_hash,
        now as Timestamp,
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
            now as Timestamp,
            end as Timestamp,
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

/// A user's sessions, the newest first: never more than [`SESSIONS_PER_USER`].
pub async fn list_of_user(db: impl PgExecutor<'_>, user: &UserId, now: Timestamp) -> Result<Vec<Session>, sqlx::Error> {
    sqlx::query_as!(
        Session,
        r#"SELECT id AS "id: SessionId", browser, created_at AS "created_at: Timestamp",
                  last_used_at AS "last_used_at: Timestamp"
           FROM sessions WHERE user_id = $1 AND expires_at > $2 ORDER BY id DESC LIMIT $3"#,
        user.as_str(),
        now as Timestamp,
        SESSIONS_PER_USER,
    )
    .fetch_all(db)
    .await
}

/// Ends one of a user's sessions; false when there is no such one.
pub async fn end(db: impl PgExecutor<'_>, user: &UserId, id: &SessionId) -> Result<bool, sqlx::Error> {
    let ended = sqlx::query!("DELETE FROM sessions WHERE id = $1 AND user_id = $2", id.as_str(), user.as_str())
        .execute(db)
        .await?;
    Ok(ended.rows_affected() == 1)
}

/// Ends the session behind a secret, if there is one.
pub async fn end_by_secret(db: impl PgExecutor<'_>, secret_hash: &[u8; 32]) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM sessions WHERE secret_hash = $1", secret_hash).execute(db).await.map(drop)
}

/// Signs a user out everywhere: on the console, and on every gated site that let them in.
pub async fn end_all(conn: &mut PgConnection, user: &UserId) -> Result<Touched, sqlx::Error> {
    sqlx::query!("DELETE FROM sessions WHERE user_id = $1", user.as_str()).execute(&mut *conn).await?;
    sqlx::query!("DELETE FROM gate_tickets WHERE user_id = $1", user.as_str()).execute(&mut *conn).await?;
    sqlx::query!("UPDATE users SET gate_version = gate_version + 1 WHERE id = $1", user.as_str())
        .execute(&mut *conn)
        .await?;
    Ok(Touched::new(user))
}

/// Forgets up to `limit` sessions that are over. How many there were.
pub async fn delete_expired(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM sessions WHERE id IN
             (SELECT id FROM sessions WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        now as Timestamp,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
