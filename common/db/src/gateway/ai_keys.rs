//! The keys of the AI gateway: `ai` tokens, found by the hash of their secret.

use domain::{
    Account, Epoch, OrgId, PayingAccount, TokenId, UserId,
    gateway::{BodyLimit, KeyLimits, ModelAlias, ModelAliases, TokenLimit},
    token::TokenHash,
    usage::{Microcents, MonthlyLimit},
};
use sqlx::{PgPool, types::Json};

use crate::edges::routes::{AsOf, SnapshotExtent};

/// A working `ai` token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AiKey {
    /// The token.
    pub token: TokenId,
    /// The account that owns it.
    pub account: Account,
    /// The account and its paying account, to which the key's use of an edge is attributed.
    pub payer: PayingAccount,
    /// The plan that the account is subscribed to; `None` without a subscription that entitles to one.
    pub subscribed: Option<String>,
    /// The plan that the account's current month was charged for, if any.
    pub charged: Option<String>,
    /// The maximum monthly cost of the key.
    pub limit: Option<Microcents>,
    /// The maximum monthly cost of all the account's keys, in addition to the limit of its plan.
    pub account_limit: Option<Microcents>,
    /// The key's own limits on requests, below those of its plan.
    pub asks: KeyLimits,
    /// The account's model aliases.
    pub aliases: ModelAliases,
    /// Whether the operator has suspended the account, or all its owners.
    pub is_suspended: bool,
}

/// Returns the unrevoked `ai` token with this secret, and its snapshot's place in the order of changes.
pub async fn find(pool: &PgPool, secret: &TokenHash) -> Result<AsOf<Option<AiKey>>, sqlx::Error> {
    // A function, because an edge's role may not read the table.
    let row = sqlx::query!(
        r#"SELECT k.epoch AS "epoch!: Epoch", seq AS "seq!", seq_end AS "end!", token_id AS "id?: TokenId", user_id AS "user_id?: UserId",
                  org_id AS "org_id?: OrgId", limit_cents AS "limit_cents?: MonthlyLimit",
                  account_limit_cents AS "account_limit_cents?: MonthlyLimit", plan AS "plan?",
                  body_bytes AS "body_bytes?: BodyLimit", max_tokens AS "max_tokens?: TokenLimit",
                  charged_plan AS "charged_plan?",
                  (SELECT o.created_by FROM orgs o WHERE o.id = k.org_id) AS "creator?: UserId",
                  find_model_aliases(user_id, org_id) AS "aliases?: Json<Vec<ModelAlias>>",
                  EXISTS (SELECT FROM account_suspensions s WHERE s.account = COALESCE(k.user_id, k.org_id))
                      OR find_suspension_of_owners(k.org_id) IS NOT NULL AS "is_suspended!"
           FROM find_gateway_key_and_credit($1) k"#,
        secret.as_bytes(),
    )
    .fetch_one(pool)
    .await?;
    let account = row.user_id.map(Account::User).or(row.org_id.map(Account::Org));
    let value = row.id.zip(account).map(|(token, account)| AiKey {
        token,
        payer: PayingAccount::new(account.clone(), row.creator),
        account,
        subscribed: row.plan,
        charged: row.charged_plan,
        limit: row.limit_cents.map(Microcents::from),
        account_limit: row.account_limit_cents.map(Microcents::from),
        asks: KeyLimits { body_bytes: row.body_bytes, max_tokens: row.max_tokens },
        // Aliases from a version with other rules may be invalid here. They are ignored, and the key works.
        aliases: row.aliases.and_then(|Json(aliases)| aliases.try_into().ok()).unwrap_or_default(),
        is_suspended: row.is_suspended,
    });
    Ok(AsOf { value, extent: SnapshotExtent::from_columns((row.epoch, row.seq, row.end)) })
}
