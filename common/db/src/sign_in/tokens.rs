//! Tokens, found by the hash of their secret, which itself is not stored.

use domain::{
    Account, OrgId, OrgName, Patch, Timestamp, TokenId, UserId,
    gateway::{BodyLimit, KeyLimits, TokenLimit},
    limits::{REVOKED_TOKENS, USER_TOKENS},
    month::Month,
    token::{TokenHash, TokenKind},
    usage::{Microcents, MonthlyLimit},
};
use sqlx::{PgConnection, PgExecutor, PgPool};

use crate::{quotas, sign_in::users::User};

/// A token, as shown to its owner.
#[derive(Debug, Clone)]
pub struct Token {
    /// The id.
    pub id: TokenId,
    /// The API that the token is for.
    pub kind: TokenKind,
    /// The label that its owner gave it.
    pub label: Option<String>,
    /// The creation time.
    pub created_at: Timestamp,
    /// The time of the revocation; `None` while the token works.
    pub revoked_at: Option<Timestamp>,
    /// The maximum monthly cost.
    pub limit: Option<MonthlyLimit>,
    /// The key's own limits on requests, below those of its plan.
    pub asks: KeyLimits,
}

/// The limits of a new gateway key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewLimits {
    /// The maximum monthly cost.
    pub month: Option<MonthlyLimit>,
    /// The key's own limits on requests, below those of its plan.
    pub asks: KeyLimits,
}

/// A change of a key's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitChange {
    /// The maximum monthly cost.
    pub month: Patch<MonthlyLimit>,
    /// The maximum size of a request in bytes.
    pub body_bytes: Patch<BodyLimit>,
    /// The maximum number of tokens per choice.
    pub max_tokens: Patch<TokenLimit>,
}

/// A user's token with its cost.
#[derive(Debug, Clone)]
pub struct TokenAndCost {
    /// The token.
    pub token: Token,
    /// The cost in the requested month.
    pub month_cost: Microcents,
}

/// The reason a token's limit was not changed.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// There is no such token, or it is revoked.
    #[error("there is no such token")]
    NotFound,
    /// The token is not a gateway key, and costs nothing.
    #[error("a {} token has no limit", .0.as_str())]
    NotAKey(TokenKind),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// The most organizations among which the rate of their payer is shared out.
const SHARING: i64 = 100;

/// A presented token and its owner.
#[derive(Debug, Clone)]
pub struct PresentedToken {
    /// The token.
    pub token: Token,
    /// The owner.
    pub owner: TokenOwner,
}

/// The owner of a token.
#[derive(Debug, Clone)]
pub enum TokenOwner {
    /// A user.
    User(User),
    /// An organization.
    Org {
        /// The id.
        id: OrgId,
        /// The name.
        name: OrgName,
        /// The creation time.
        created_at: Timestamp,
        /// The person who pays for it; `None` if nobody does.
        creator: Option<UserId>,
        /// The organizations of that person that have deploy tokens, at most 100.
        sharing: u32,
    },
}

/// Returns whether a token exists and was not revoked.
pub async fn is_live(db: impl PgExecutor<'_>, id: &TokenId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM tokens WHERE id = $1 AND revoked_at IS NULL) AS "live!""#,
        id.as_str(),
    )
    .fetch_one(db)
    .await
}

/// Returns the token with this secret and its owner, even if it is revoked. A look-up by hash has no timing side
/// channel that helps to find a secret.
pub async fn find_bearer(pool: &PgPool, secret: &TokenHash) -> Result<Option<PresentedToken>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT t.id, t.kind, t.label, t.created_at,
                  t.revoked_at, t.monthly_limit_cents, t.gateway_body_bytes, t.gateway_max_tokens,
                  u.id AS "user_id?", u.vcs_id AS "vcs_id?", u.vcs_login AS "vcs_login?", u.email AS "email?",
                  u.created_at AS "user_created_at?",
                  o.id AS "org_id?", o.name AS "org_name?", o.created_at AS "org_created_at?",
                  o.created_by AS "org_creator?: UserId",
                  (SELECT count(*) FROM (
                       SELECT FROM orgs other WHERE other.created_by = o.created_by
                       AND EXISTS (SELECT FROM tokens d
                                   WHERE d.org_id = other.id AND d.kind = 'deploy' AND d.revoked_at IS NULL)
                       LIMIT $2) AS sharing) AS "sharing!"
           FROM tokens t LEFT JOIN users u ON u.id = t.user_id LEFT JOIN orgs o ON o.id = t.org_id
           WHERE t.secret_hash = $1"#,
        secret.as_bytes(),
        SHARING,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.and_then(|row| {
        let owner = match (row.user_id, row.vcs_id, row.vcs_login, row.user_created_at) {
            (Some(id), Some(vcs_id), Some(vcs_login), Some(created_at)) => {
                TokenOwner::User(User { id, vcs_id, vcs_login, email: row.email, created_at })
            }
            _ => TokenOwner::Org {
                id: row.org_id?,
                name: row.org_name?,
                created_at: row.org_created_at?,
                creator: row.org_creator,
                sharing: u32::try_from(row.sharing).unwrap_or(u32::MAX),
            },
        };
        let token = Token {
            id: row.id,
            kind: row.kind,
            label: row.label,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
            limit: row.monthly_limit_cents,
            asks: KeyLimits { body_bytes: row.gateway_body_bytes, max_tokens: row.gateway_max_tokens },
        };
        Some(PresentedToken { token, owner })
    }))
}

/// The reason a token was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateUserTokenError {
    /// The person has reached the maximum number of working tokens.
    #[error("there are {USER_TOKENS} working tokens; revoke some that are no longer used")]
    TooMany,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Creates a token for a user with fewer than [`USER_TOKENS`] working tokens. Deletes their oldest revoked tokens
/// beyond [`REVOKED_TOKENS`].
pub async fn create_for_user(
    conn: &mut PgConnection,
    user: &UserId,
    kind: TokenKind,
    label: Option<&str>,
    limits: NewLimits,
    secret: &TokenHash,
    now: Timestamp,
) -> Result<Token, CreateUserTokenError> {
    // Lock before counting: two concurrent calls could exceed the limit.
    quotas::lock(&mut *conn, &Account::User(user.clone())).await?;
    let working = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM tokens WHERE user_id = $1 AND revoked_at IS NULL"#,
        user.as_str(),
    )
    .fetch_one(&mut *conn)
    .await?;
    if working >= USER_TOKENS {
        return Err(CreateUserTokenError::TooMany);
    }
    sqlx::query!(
        "DELETE FROM tokens WHERE id IN
             (SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NOT NULL ORDER BY id DESC OFFSET $2)",
        user.as_str(),
        REVOKED_TOKENS,
    )
    .execute(&mut *conn)
    .await?;
    let (id, label_kept) = (TokenId::new(now), label.map(ToOwned::to_owned));
    let NewLimits { month: limit, asks } = limits;
    let token = Token { id, kind, label: label_kept, created_at: now, revoked_at: None, limit, asks };
    sqlx::query!(
        "INSERT INTO tokens (id, kind, user_id, created_by, label, secret_hash, created_at, monthly_limit_cents,
                             gateway_body_bytes, gateway_max_tokens)
         VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8, $9)",
        token.id.as_str(),
        kind as TokenKind,
        user.as_str(),
        label,
        secret.as_bytes(),
        now,
        limit as Option<MonthlyLimit>,
        asks.body_bytes as Option<BodyLimit>,
        asks.max_tokens as Option<TokenLimit>,
    )
    .execute(conn)
    .await?;
    Ok(token)
}

/// Reads tokens of users with their cost in a month, the second argument; the first continues the statement.
macro_rules! select_tokens {
    ($rest:literal, $month:expr $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            UserTokenRow,
            r#"SELECT t.id, t.kind, t.label, t.created_at, t.revoked_at, t.monthly_limit_cents,
                      t.gateway_body_bytes, t.gateway_max_tokens,
                      COALESCE((SELECT k.cost_microcents FROM ai_usage_keys k
                                WHERE k.account_id = t.user_id AND k.token_id = t.id AND k.month = $1), 0) AS "month_cost!"
               FROM tokens t "# + $rest,
            $month
            $(, $argument)*
        )
    };
}

struct UserTokenRow {
    id: TokenId,
    kind: TokenKind,
    label: Option<String>,
    created_at: Timestamp,
    revoked_at: Option<Timestamp>,
    monthly_limit_cents: Option<MonthlyLimit>,
    gateway_body_bytes: Option<BodyLimit>,
    gateway_max_tokens: Option<TokenLimit>,
    month_cost: i64,
}

impl From<UserTokenRow> for TokenAndCost {
    fn from(row: UserTokenRow) -> Self {
        let UserTokenRow { id, kind, label, created_at, revoked_at, monthly_limit_cents: limit, .. } = row;
        let asks = KeyLimits { body_bytes: row.gateway_body_bytes, max_tokens: row.gateway_max_tokens };
        let month_cost = Microcents(row.month_cost.try_into().unwrap_or_default());
        Self { token: Token { id, kind, label, created_at, revoked_at, limit, asks }, month_cost }
    }
}

/// Returns at most `rows` of a user's tokens from before `before`, newest first, with their cost in `month`.
pub async fn list_for_user(
    pool: &PgPool,
    user: &UserId,
    month: Month,
    before: Option<&TokenId>,
    rows: i64,
) -> Result<Vec<TokenAndCost>, sqlx::Error> {
    let tokens = select_tokens!(
        "WHERE t.user_id = $2 AND ($3::text IS NULL OR t.id < $3) ORDER BY t.id DESC LIMIT $4",
        month.first_day(),
        user.as_str(),
        before.map(TokenId::as_str),
        rows,
    );
    Ok(tokens.fetch_all(pool).await?.into_iter().map(Into::into).collect())
}

/// Sets or removes limits of a user's key. Returns the token with its cost in `month`.
pub async fn limit_for_user(
    conn: &mut PgConnection,
    user: &UserId,
    id: &TokenId,
    change: &LimitChange,
    month: Month,
) -> Result<TokenAndCost, LimitError> {
    let kind = sqlx::query_scalar!(
        "SELECT kind FROM tokens WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL FOR UPDATE",
        id.as_str(),
        user.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    set_limits(&mut *conn, id, kind, change).await?;
    let token = select_tokens!("WHERE t.id = $2", month.first_day(), id.as_str()).fetch_one(conn).await?;
    Ok(token.into())
}

/// Changes the limits of a locked token of `kind`, if it exists and is a gateway key.
pub(crate) async fn set_limits(
    conn: &mut PgConnection,
    id: &TokenId,
    kind: Option<TokenKind>,
    change: &LimitChange,
) -> Result<(), LimitError> {
    match kind {
        None => return Err(LimitError::NotFound),
        Some(TokenKind::Ai) => {}
        Some(kind @ (TokenKind::Cli | TokenKind::Deploy)) => return Err(LimitError::NotAKey(kind)),
    }
    sqlx::query!(
        "UPDATE tokens SET monthly_limit_cents = CASE WHEN $2 THEN $3 ELSE monthly_limit_cents END,
                           gateway_body_bytes = CASE WHEN $4 THEN $5 ELSE gateway_body_bytes END,
                           gateway_max_tokens = CASE WHEN $6 THEN $7 ELSE gateway_max_tokens END
         WHERE id = $1",
        id.as_str(),
        !change.month.is_keep(),
        change.month.value() as Option<MonthlyLimit>,
        !change.body_bytes.is_keep(),
        change.body_bytes.value() as Option<BodyLimit>,
        !change.max_tokens.is_keep(),
        change.max_tokens.value() as Option<TokenLimit>,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A revoked token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedToken {
    /// The API that it was for.
    pub kind: TokenKind,
    /// The label that its owner gave it.
    pub label: Option<String>,
}

/// Revokes and returns a user's token; `None` when the user has no such working token.
pub async fn revoke_for_user(
    conn: &mut PgConnection,
    user: &UserId,
    id: &TokenId,
    now: Timestamp,
) -> Result<Option<RevokedToken>, sqlx::Error> {
    sqlx::query_as!(
        RevokedToken,
        "UPDATE tokens SET revoked_at = $3 WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL
           RETURNING kind, label",
        id.as_str(),
        user.as_str(),
        now,
    )
    .fetch_optional(conn)
    .await
}
