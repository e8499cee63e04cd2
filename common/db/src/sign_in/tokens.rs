//! Tokens: found by the hash of their secret, which is all that is kept of it.

use domain::{
    OrgId, OrgName, Timestamp, TokenId, UserId,
    token::{TokenHash, TokenKind},
};
use sqlx::{PgConnection, PgPool};

use crate::sign_in::users::User;

/// A token as its owner sees it.
#[derive(Debug, Clone)]
pub struct Token {
    /// The id.
    pub id: TokenId,
    /// The API that the token works against.
    pub kind: TokenKind,
    /// The label that its owner gave it.
    pub label: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the revocation; `None` while the token works.
    pub revoked_at: Option<Timestamp>,
}

/// A presented token and its owner.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// The token.
    pub token: Token,
    /// Its owner.
    pub owner: Owner,
}

/// The owner of a token.
#[derive(Debug, Clone)]
pub enum Owner {
    /// A user.
    User(User),
    /// An organization.
    Org {
        /// The id.
        id: OrgId,
        /// The name.
        name: OrgName,
        /// Time of creation.
        created_at: Timestamp,
    },
}

/// Returns the token with this secret and its owner, also when it is revoked. The timing of a look-up by hash reveals
/// nothing that helps to find a secret.
pub async fn find_bearer(pool: &PgPool, secret: &TokenHash) -> Result<Option<Bearer>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT t.id, t.kind, t.label, t.created_at,
                  t.revoked_at,
                  u.id AS "user_id?", u.vcs_id AS "vcs_id?", u.vcs_login AS "vcs_login?", u.email AS "email?",
                  u.created_at AS "user_created_at?",
                  o.id AS "org_id?", o.name AS "org_name?", o.created_at AS "org_created_at?"
           FROM tokens t LEFT JOIN users u ON u.id = t.user_id LEFT JOIN orgs o ON o.id = t.org_id
           WHERE t.secret_hash = $1"#,
        secret.as_bytes(),
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.and_then(|row| {
        let owner = match (row.user_id, row.vcs_id, row.vcs_login, row.user_created_at) {
            (Some(id), Some(vcs_id), Some(vcs_login), Some(created_at)) => {
                Owner::User(User { id, vcs_id, vcs_login, email: row.email, created_at })
            }
            _ => Owner::Org { id: row.org_id?, name: row.org_name?, created_at: row.org_created_at? },
        };
        let token = Token {
            id: row.id,
            kind: row.kind,
            label: row.label,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
        };
        Some(Bearer { token, owner })
    }))
}

/// Makes a user's token.
pub async fn create_for_user(
    conn: &mut PgConnection,
    user: &UserId,
    kind: TokenKind,
    label: Option<&str>,
    secret: &TokenHash,
    now: Timestamp,
) -> Result<Token, sqlx::Error> {
    let token =
        Token { id: TokenId::new(now), kind, label: label.map(ToOwned::to_owned), created_at: now, revoked_at: None };
    sqlx::query!(
        "INSERT INTO tokens (id, kind, user_id, created_by, label, secret_hash, created_at)
         VALUES ($1, $2, $3, $3, $4, $5, $6)",
        token.id.as_str(),
        kind as TokenKind,
        user.as_str(),
        label,
        secret.as_bytes(),
        now,
    )
    .execute(conn)
    .await?;
    Ok(token)
}

/// Returns at most `limit` of a user's tokens, newest first, those before `before` only.
pub async fn list_of_user(
    pool: &PgPool,
    user: &UserId,
    before: Option<&TokenId>,
    limit: i64,
) -> Result<Vec<Token>, sqlx::Error> {
    sqlx::query_as!(
        Token,
        "SELECT id, kind, label, created_at,
                  revoked_at
           FROM tokens WHERE user_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3",
        user.as_str(),
        before.map(TokenId::as_str),
        limit,
    )
    .fetch_all(pool)
    .await
}

/// Revokes a user's token, and returns its kind; `None` when the user has no such token or it is revoked already.
pub async fn revoke_of_user(
    conn: &mut PgConnection,
    user: &UserId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<TokenKind>, sqlx::Error> {
    sqlx::query_scalar!(
        "UPDATE tokens SET revoked_at = $3 WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL
           RETURNING kind",
        id.as_str(),
        user.as_str(),
        now,
    )
    .fetch_optional(conn)
    .await
}
