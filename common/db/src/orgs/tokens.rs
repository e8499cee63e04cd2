//! Tokens that an organization owns. They belong to nobody else, so they survive who made them.

use domain::{
    Timestamp, TokenId,
    limits::ORG_TOKENS,
    token::{TokenHash, TokenKind},
};
use sqlx::{PgConnection, PgExecutor};

use crate::{
    permits::{Admin, AtLeast, LockedOrg, OrgPermit},
    sign_in::users::User,
};

/// A working token of an org.
#[derive(Debug, Clone)]
pub struct OrgToken {
    /// The id.
    pub id: TokenId,
    /// The API that the token works against.
    pub kind: TokenKind,
    /// The label that the org gave it.
    pub label: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// The login of its maker; `None` once that account is gone.
    pub created_by: Option<String>,
}

/// A token to make.
#[derive(Debug, Clone, Copy)]
pub struct NewToken<'a> {
    /// The API that the token works against: the gateway, or the deploy surface.
    pub kind: TokenKind,
    /// The label.
    pub label: Option<&'a str>,
    /// Hash of the token's secret.
    pub secret: &'a TokenHash,
}

/// Why a token was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The org has as many working tokens as it may.
    #[error("the organization has too many tokens")]
    TooMany,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Makes a token of the org.
pub async fn create(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    creator: &User,
    new: NewToken<'_>,
    now: Timestamp,
) -> Result<OrgToken, CreateError> {
    let working = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM tokens WHERE org_id = $1 AND revoked_at IS NULL"#,
        org.id.as_str(),
    )
    .fetch_one(&mut *conn)
    .await?;
    if working >= ORG_TOKENS {
        return Err(CreateError::TooMany);
    }
    let token = OrgToken {
        id: TokenId::new(now),
        kind: new.kind,
        label: new.label.map(ToOwned::to_owned),
        created_at: now,
        created_by: Some(creator.vcs_login.clone()),
    };
    sqlx::query!(
        "INSERT INTO tokens (id, kind, org_id, created_by, label, secret_hash, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        token.id.as_str(),
        token.kind as TokenKind,
        org.id.as_str(),
        creator.id.as_str(),
        new.label,
        new.secret.as_bytes(),
        now,
    )
    .execute(conn)
    .await?;
    Ok(token)
}

/// Returns the org's working tokens, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Admin>>,
    before: Option<&TokenId>,
    rows: i64,
) -> Result<Vec<OrgToken>, sqlx::Error> {
    sqlx::query_as!(
        OrgToken,
        r#"SELECT t.id, t.kind, t.label,
                  t.created_at, u.vcs_login AS "created_by?"
           FROM tokens t LEFT JOIN users u ON u.id = t.created_by
           WHERE t.org_id = $1 AND t.revoked_at IS NULL AND ($2::text IS NULL OR t.id < $2)
           ORDER BY t.id DESC LIMIT $3"#,
        org.id.as_str(),
        before.map(TokenId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Revokes a token, and returns its kind; `None` when the org has no such token or it is revoked already.
pub async fn revoke(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<TokenKind>, sqlx::Error> {
    sqlx::query_scalar!(
        "UPDATE tokens SET revoked_at = $3 WHERE id = $1 AND org_id = $2 AND revoked_at IS NULL
           RETURNING kind",
        id.as_str(),
        org.id.as_str(),
        now,
    )
    .fetch_optional(conn)
    .await
}
