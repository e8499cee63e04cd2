//! Users: accounts of the code host.

use domain::{Timestamp, UserId};
use sqlx::PgConnection;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Our id.
    pub id: UserId,
    /// The code host's id: it stays when the login changes.
    pub vcs_id: String,
    /// The code host's login, as it was at the last sign-in.
    pub vcs_login: String,
    /// The address the code host gave.
    pub email: Option<String>,
    /// Time of the first sign-in.
    pub created_at: Timestamp,
}

/// A person as the code host describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The code host's id of the account.
    pub vcs_id: String,
    /// The present login.
    pub login: String,
    /// The primary address, if the code host tells it.
    pub email: Option<String>,
}

/// Follows an account of the code host to its new login.
pub async fn rename(conn: &mut PgConnection, vcs_id: &str, login: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE users SET vcs_login = $2 WHERE vcs_id = $1 AND vcs_login <> $2", vcs_id, login)
        .execute(conn)
        .await
        .map(drop)
}

/// Returns the user behind `identity`, who is created at the first sign-in and updated at every later one.
pub async fn upsert(conn: &mut PgConnection, identity: &Identity, now: Timestamp) -> Result<User, sqlx::Error> {
    sqlx::query_as!(
        User,
        "INSERT INTO users (id, vcs_id, vcs_login, email, created_at) VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (vcs_id) DO UPDATE
               SET vcs_login = excluded.vcs_login, email = coalesce(excluded.email, users.email)
           RETURNING id, vcs_id, vcs_login, email, created_at",
        UserId::new(now) as UserId,
        identity.vcs_id,
        identity.login,
        identity.email,
        now,
    )
    .fetch_one(conn)
    .await
}
