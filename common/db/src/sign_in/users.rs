//! Users: accounts of the code host.

use domain::{Timestamp, UserId};
use sqlx::PgConnection;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Our id.
    pub id: UserId,
    /// The code host's id, which is stable when the login changes.
    pub vcs_id: String,
    /// The code host's login at the last sign-in.
    pub vcs_login: String,
    /// The address from the code host.
    pub email: Option<String>,
    /// The time of the first sign-in.
    pub created_at: Timestamp,
}

/// A person as the code host describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeHostIdentity {
    /// The code host's id of the account.
    pub vcs_id: String,
    /// The current login.
    pub login: String,
    /// The primary address, if the code host discloses it.
    pub email: Option<String>,
}

/// Returns the login of a user.
pub async fn find_login(conn: &mut PgConnection, user: &UserId) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("SELECT vcs_login FROM users WHERE id = $1", user.as_str()).fetch_optional(conn).await
}

/// Updates the login of a code host account.
pub async fn rename(conn: &mut PgConnection, vcs_id: &str, login: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE users SET vcs_login = $2 WHERE vcs_id = $1 AND vcs_login <> $2", vcs_id, login)
        .execute(conn)
        .await
        .map(drop)
}

/// Creates or updates the user with `identity` at a sign-in, and returns it.
pub async fn upsert(conn: &mut PgConnection, identity: &CodeHostIdentity, now: Timestamp) -> Result<User, sqlx::Error> {
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
