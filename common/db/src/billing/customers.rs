//! Accounts as customers of a payment provider.

use domain::{Account, OrgId, Timestamp, UserId};
use sqlx::PgExecutor;

/// Returns the provider's id for the account, whose mandates are those of `payer`. `None` for the payer is whoever gave
/// them.
pub async fn find(
    db: impl PgExecutor<'_>,
    account: &Account,
    payer: Option<&UserId>,
    provider: &str,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT customer_id FROM billing_customers
         WHERE account = $1 AND provider = $2 AND ($3::text IS NULL OR payer = $3)",
        account.as_str(),
        provider,
        payer.map(UserId::as_str),
    )
    .fetch_optional(db)
    .await
}

/// Records the provider's id for the account, and returns the recorded one: another admin may have been first. It takes
/// the place of one with another payer's mandates, which are charged no more.
pub async fn record(
    db: impl PgExecutor<'_>,
    account: &Account,
    payer: Option<&UserId>,
    provider: &str,
    customer_id: &str,
    now: Timestamp,
) -> Result<String, sqlx::Error> {
    // `RETURNING` needs the update to return an existing row.
    sqlx::query_scalar!(
        "INSERT INTO billing_customers AS known (account, provider, customer_id, created_at, payer)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (account, provider) DO UPDATE
             SET customer_id = CASE WHEN known.payer IS NOT DISTINCT FROM excluded.payer THEN known.customer_id
                                    ELSE excluded.customer_id END,
                 payer = excluded.payer
         RETURNING customer_id",
        account.as_str(),
        provider,
        customer_id,
        now,
        payer.map(UserId::as_str),
    )
    .fetch_one(db)
    .await
}

/// Deletes the provider's id for the account, which the provider no longer knows.
pub async fn forget(db: impl PgExecutor<'_>, account: &Account, provider: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM billing_customers WHERE account = $1 AND provider = $2", account.as_str(), provider)
        .execute(db)
        .await
        .map(drop)
}

/// Returns whether the account still exists.
pub async fn exists(db: impl PgExecutor<'_>, account: &Account) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM users WHERE id = $1) OR EXISTS (SELECT FROM orgs WHERE id = $2) AS "exists!""#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
    )
    .fetch_one(db)
    .await
}
