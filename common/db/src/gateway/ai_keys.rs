//! The gateway's keys: `ai` tokens, found by the hash of their secret.

use domain::{Account, TokenId, token::TokenHash};
use sqlx::PgPool;

use crate::edges::routes::AsOf;

/// Returns the `ai` token with this secret and the account that owns it, unless it was revoked; with the reading's
/// place in the order of changes.
pub async fn find(pool: &PgPool, secret: &TokenHash) -> Result<AsOf<Option<(TokenId, Account)>>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT c.last_seq AS seq, t.id AS "id?", t.user_id AS "user_id?", t.org_id AS "org_id?"
           FROM route_counter c
           LEFT JOIN tokens t ON t.secret_hash = $1 AND t.kind = 'ai' AND t.revoked_at IS NULL"#,
        secret.as_bytes(),
    )
    .fetch_one(pool)
    .await?;
    let account = row.user_id.map(Account::User).or(row.org_id.map(Account::Org));
    Ok(AsOf { value: row.id.zip(account), seq: row.seq })
}
