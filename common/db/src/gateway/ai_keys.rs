//! The gateway's keys: `ai` tokens, found by the hash of their secret.

use domain::{Account, TokenId, token::TokenHash, usage::Microcents};
use sqlx::PgPool;

use crate::edges::routes::{AsOf, Extent};

/// An `ai` token that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AiKey {
    /// The token.
    pub token: TokenId,
    /// The account that owns it.
    pub account: Account,
    /// The plan that the account is subscribed to; `None` without a subscription that entitles to one.
    pub subscribed: Option<String>,
    /// The most that the key may cost in a month.
    pub limit: Option<Microcents>,
    /// The most that all keys of the account may cost in a month, beside what its plan allows.
    pub account_limit: Option<Microcents>,
}

/// Returns the `ai` token with this secret, unless it was revoked; with the reading's place in the order of changes.
pub async fn find(pool: &PgPool, secret: &TokenHash) -> Result<AsOf<Option<AiKey>>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT c.epoch, c.last_seq AS seq, c.last_seq + (EXISTS (SELECT FROM pending_route_changes))::int AS "end!", t.id AS "id?", t.user_id AS "user_id?", t.org_id AS "org_id?",
                  t.monthly_limit_cents AS "limit_cents?", o.ai_monthly_limit_cents AS "account_limit_cents?",
                  s.plan AS "plan?"
           FROM route_counter c
           LEFT JOIN tokens t ON t.secret_hash = $1 AND t.kind = 'ai' AND t.revoked_at IS NULL
           LEFT JOIN orgs o ON o.id = t.org_id
           LEFT JOIN subscriptions s ON s.account = COALESCE(t.user_id, t.org_id) AND s.status IN ('active', 'past_due')"#,
        secret.as_bytes(),
    )
    .fetch_one(pool)
    .await?;
    let account = row.user_id.map(Account::User).or(row.org_id.map(Account::Org));
    let value = row.id.zip(account).map(|(token, account)| AiKey {
        token,
        account,
        subscribed: row.plan,
        limit: row.limit_cents.map(Microcents::from),
        account_limit: row.account_limit_cents.map(Microcents::from),
    });
    Ok(AsOf { value, extent: Extent::of((row.epoch, row.seq, row.end)) })
}
