//! Tokens: found by the hash of their secret, which is all that is kept of it.

use domain::{
    OrgId, OrgName, Timestamp, TokenId, UserId,
    token::{TokenHash, TokenKind},
};
use sqlx::{PgConnection, PgPool};

use super::users::User;

/// A token as its owner sees it.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// What it works against.
    pub kind: TokenKind,
    /// What its owner calls it.
    pub label: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A presented token, and whom it speaks for.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// The token.
    pub token: Token,
    /// Its owner.
    pub owner: Owner,
}

/// Who owns a token.
#[derive(Debug, Clone)]
pub enum Owner {
    /// A user.
    User(User),
    /// An organization.
    Org {
        /// Its id.
        id: OrgId,
        /// Its name.
        name: OrgName,
        /// When it was made.
        created_at: Timestamp,
    },
}

/// Whose secret this is, revoked tokens included. Looking up a hash reveals nothing by its timing that helps to find
/// a secret.
pub async fn find_bearer(pool: &PgPool, secret: &TokenHash) -> Result<Option<Bearer>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT t.id AS "id: TokenId", t.kind AS "kind: TokenKind", t.label, t.created_at AS "created_at: Timestamp",
                  t.revoked_at AS "revoked_at: Timestamp",
                  u.id AS "user_id?: UserId", u.vcs_id AS "vcs_id?", u.vcs_login AS "vcs_login?", u.email AS "email?",
                  u.created_at AS "user_created_at?: Timestamp",
                  o.id AS "org_id?: OrgId", o.name AS "org_name?: OrgName", o.created_at AS "org_created_at?: Timestamp"
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
        now as Timestamp,
    )
    .execute(conn)
    .await?;
    Ok(token)
}

/// A user's tokens, newest first, those before `before` only: one row more than `limit` says that there are more.
pub async fn list_of_user(
    pool: &PgPool,
    user: &UserId,
    before: Option<&TokenId>,
    limit: i64,
) -> Result<Vec<Token>, sqlx::Error> {
    sqlx::query_as!(
        Token,
        r#"SELECT id AS "id: TokenId", kind AS "kind: TokenKind", label, created_at AS "created_at: Timestamp",
                  revoked_at AS "revoked_at: Timestamp"
           FROM tokens WHERE user_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3"#,
        user.as_str(),
        before.map(TokenId::as_str),
        limit,
    )
    .fetch_all(pool)
    .await
}

/// Revokes a user's token: its kind. None when the user has no such token, or it is revoked already.
pub async fn revoke_of_user(
    conn: &mut PgConnection,
    user: &UserId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<TokenKind>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"UPDATE tokens SET revoked_at = $3 WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL
           RETURNING kind AS "kind: TokenKind""#,
        id.as_str(),
        user.as_str(),
        now as Timestamp,
    )
    .fetch_optional(conn)
    .await
}
