//! An account's resources that a plan limits, for a change to a smaller plan.

use domain::{
    Account, OrgId, Timestamp, UserId,
    limits::{PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
};
use sqlx::PgExecutor;

/// The number of an account's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountHoldings {
    /// Organizations that the person pays for.
    pub orgs: i64,
    /// Members and pending invites of the organization.
    pub seats: i64,
    /// Projects, not counting shares.
    pub projects: i64,
    /// Custom domains.
    pub domains: i64,
    /// Shares that have not expired.
    pub shares: i64,
    /// Bytes in the store.
    pub stored_bytes: i64,
}

/// Returns the account's resources.
pub async fn holdings(
    db: impl PgExecutor<'_>,
    account: &Account,
    now: Timestamp,
) -> Result<AccountHoldings, sqlx::Error> {
    sqlx::query_as!(
        AccountHoldings,
        r#"WITH owned AS MATERIALIZED (
             SELECT id, share_name, expires_at FROM projects WHERE user_id = $1 OR org_id = $2)
           SELECT (SELECT count(*) FROM orgs WHERE created_by = $1) AS "orgs!",
                  (SELECT count(*) FROM org_members WHERE org_id = $2)
                    + (SELECT count(*) FROM invites WHERE org_id = $2 AND ended_at IS NULL AND expires_at > $3) AS "seats!",
                  (SELECT count(*) FROM owned WHERE share_name IS NULL) AS "projects!",
                  (SELECT count(*) FROM custom_domains c JOIN owned ON owned.id = c.project_id) AS "domains!",
                  (SELECT count(*) FROM owned WHERE share_name IS NOT NULL AND expires_at > $3) AS "shares!",
                  (SELECT COALESCE(sum(greatest(COALESCE(d.stored_bytes, d.bytes) + $4::bigint, $5)), 0)::bigint FROM deployments d
                   JOIN owned ON owned.id = d.project_id WHERE d.status IN ('live', 'superseded')) AS "stored_bytes!""#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
        now,
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_one(db)
    .await
}
