//! Tokens that an organization owns. They outlive the accounts that created them.

use domain::{
    Timestamp, TokenId,
    gateway::{BodyLimit, KeyLimits, TokenLimit},
    limits::{ORG_TOKENS, REVOKED_TOKENS},
    month::Month,
    token::{TokenHash, TokenKind},
    usage::{Microcents, MonthlyLimit},
};
use sqlx::{PgConnection, PgExecutor};

use crate::{
    permits::{Admin, AtLeast, LockedOrg, OrgPermit},
    sign_in::{
        tokens::{LimitChange, LimitError, NewLimits, RevokedToken, set_limits},
        users::User,
    },
};

/// A working token of an org.
#[derive(Debug, Clone)]
pub struct OrgToken {
    /// The id.
    pub id: TokenId,
    /// The API that the token is for.
    pub kind: TokenKind,
    /// The label that the org gave it.
    pub label: Option<String>,
    /// The creation time.
    pub created_at: Timestamp,
    /// The login of its creator; `None` once that account is deleted.
    pub created_by: Option<String>,
    /// The maximum monthly cost.
    pub limit: Option<MonthlyLimit>,
    /// The key's own limits on requests, below those of its plan.
    pub asks: KeyLimits,
    /// The cost in the requested month.
    pub month_cost: Microcents,
}

/// A token to create.
#[derive(Debug, Clone, Copy)]
pub struct NewOrgToken<'a> {
    /// The API that the token is for: the gateway, or deployments.
    pub kind: TokenKind,
    /// The label.
    pub label: Option<&'a str>,
    /// The limits of a gateway key.
    pub limits: NewLimits,
    /// The hash of the token's secret.
    pub secret: &'a TokenHash,
}

/// The reason a token was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateOrgTokenError {
    /// The org has reached the maximum number of working tokens.
    #[error("the organization has too many tokens")]
    TooMany,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Creates a token of the org. Deletes its oldest revoked tokens beyond [`REVOKED_TOKENS`].
pub async fn create(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    creator: &User,
    new: NewOrgToken<'_>,
    now: Timestamp,
) -> Result<OrgToken, CreateOrgTokenError> {
    let working = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM tokens WHERE org_id = $1 AND revoked_at IS NULL"#,
        org.id.as_str(),
    )
    .fetch_one(&mut *conn)
    .await?;
    if working >= ORG_TOKENS {
        return Err(CreateOrgTokenError::TooMany);
    }
    sqlx::query!(
        "DELETE FROM tokens WHERE id IN
             (SELECT id FROM tokens WHERE org_id = $1 AND revoked_at IS NOT NULL ORDER BY id DESC OFFSET $2)",
        org.id.as_str(),
        REVOKED_TOKENS,
    )
    .execute(&mut *conn)
    .await?;
    let token = OrgToken {
        id: TokenId::new(now),
        kind: new.kind,
        label: new.label.map(ToOwned::to_owned),
        created_at: now,
        created_by: Some(creator.vcs_login.clone()),
        limit: new.limits.month,
        asks: new.limits.asks,
        month_cost: Microcents::default(),
    };
    sqlx::query!(
        "INSERT INTO tokens (id, kind, org_id, created_by, label, secret_hash, created_at, monthly_limit_cents,
                             gateway_body_bytes, gateway_max_tokens)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        token.id.as_str(),
        token.kind as TokenKind,
        org.id.as_str(),
        creator.id.as_str(),
        new.label,
        new.secret.as_bytes(),
        now,
        new.limits.month as Option<MonthlyLimit>,
        new.limits.asks.body_bytes as Option<BodyLimit>,
        new.limits.asks.max_tokens as Option<TokenLimit>,
    )
    .execute(conn)
    .await?;
    Ok(token)
}

/// Reads working tokens of an org with their cost in a month; further arguments continue the statement.
macro_rules! select_tokens {
    ($rest:literal, $org:expr, $month:expr $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            OrgTokenRow,
            r#"SELECT t.id, t.kind, t.label, t.created_at, u.vcs_login AS "created_by?", t.monthly_limit_cents,
                      t.gateway_body_bytes, t.gateway_max_tokens,
                      COALESCE((SELECT k.cost_microcents FROM ai_usage_keys k
                                WHERE k.account_id = t.org_id AND k.token_id = t.id AND k.month = $2), 0) AS "month_cost!"
               FROM tokens t LEFT JOIN users u ON u.id = t.created_by
               WHERE t.org_id = $1 AND t.revoked_at IS NULL "# + $rest,
            $org.as_str(),
            $month.first_day()
            $(, $argument)*
        )
    };
}

struct OrgTokenRow {
    id: TokenId,
    kind: TokenKind,
    label: Option<String>,
    created_at: Timestamp,
    created_by: Option<String>,
    monthly_limit_cents: Option<MonthlyLimit>,
    gateway_body_bytes: Option<BodyLimit>,
    gateway_max_tokens: Option<TokenLimit>,
    month_cost: i64,
}

impl From<OrgTokenRow> for OrgToken {
    fn from(row: OrgTokenRow) -> Self {
        let OrgTokenRow { id, kind, label, created_at, created_by, monthly_limit_cents: limit, .. } = row;
        let asks = KeyLimits { body_bytes: row.gateway_body_bytes, max_tokens: row.gateway_max_tokens };
        let month_cost = Microcents(row.month_cost.try_into().unwrap_or_default());
        Self { id, kind, label, created_at, created_by, limit, asks, month_cost }
    }
}

/// Returns the org's working tokens with their cost in `month`, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Admin>>,
    month: Month,
    before: Option<&TokenId>,
    rows: i64,
) -> Result<Vec<OrgToken>, sqlx::Error> {
    let tokens = select_tokens!(
        "AND ($3::text IS NULL OR t.id < $3) ORDER BY t.id DESC LIMIT $4",
        org.id,
        month,
        before.map(TokenId::as_str),
        rows,
    );
    Ok(tokens.fetch_all(db).await?.into_iter().map(Into::into).collect())
}

/// Sets or removes limits of an org's key. Returns the token with its cost in `month`.
pub async fn limit(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    id: &TokenId,
    change: &LimitChange,
    month: Month,
) -> Result<OrgToken, LimitError> {
    let kind = sqlx::query_scalar!(
        "SELECT kind FROM tokens WHERE id = $1 AND org_id = $2 AND revoked_at IS NULL FOR UPDATE",
        id.as_str(),
        org.id.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    set_limits(&mut *conn, id, kind, change).await?;
    let token = select_tokens!("AND t.id = $3", org.id, month, id.as_str()).fetch_one(conn).await?;
    Ok(token.into())
}

/// Revokes and returns a token; `None` when the org has no such working token.
pub async fn revoke(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<RevokedToken>, sqlx::Error> {
    sqlx::query_as!(
        RevokedToken,
        "UPDATE tokens SET revoked_at = $3 WHERE id = $1 AND org_id = $2 AND revoked_at IS NULL
           RETURNING kind, label",
        id.as_str(),
        org.id.as_str(),
        now,
    )
    .fetch_optional(conn)
    .await
}
