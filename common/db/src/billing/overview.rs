//! An account's usage, compared with its plan.

use domain::{
    Account, OrgId, Timestamp, UserId,
    limits::{PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
    month::Month,
    usage::Microcents,
};
use sqlx::PgPool;

use crate::{gateway::free_credit, stats::bandwidth};

/// An account's usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountUsage {
    /// The number of projects, not counting shares.
    pub projects: u64,
    /// The number of custom domains over all projects.
    pub domains: u64,
    /// Bytes sent to people within the month.
    pub bandwidth_bytes: u64,
    /// The cost of the month's completions.
    pub ai_cost: Microcents,
}

/// Returns the account's usage. Monthly figures are those of the UTC month of `now`.
pub async fn usage(pool: &PgPool, account: &Account, now: Timestamp) -> Result<AccountUsage, sqlx::Error> {
    let month = Month::from_timestamp(now);
    let row = sqlx::query!(
        r#"WITH owned AS (SELECT id, share_name FROM projects WHERE user_id = $1 OR org_id = $2)
           SELECT (SELECT count(*) FROM owned WHERE share_name IS NULL) AS "projects!",
                  (SELECT count(*) FROM custom_domains d JOIN owned ON owned.id = d.project_id) AS "domains!",
                  (SELECT COALESCE(sum(cost_microcents), 0)::bigint FROM ai_usage_days
                   WHERE account_id = $3 AND day >= $4 AND day < $5) AS "ai_cost!""#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
        account.as_str(),
        month.first_day(),
        month.next().first_day(),
    )
    .fetch_one(pool)
    .await?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let bandwidth_bytes = bandwidth::sum_month(pool, account, month).await?;
    Ok(AccountUsage {
        projects: count(row.projects),
        domains: count(row.domains),
        bandwidth_bytes,
        ai_cost: Microcents(count(row.ai_cost)),
    })
}

/// The combined usage of the organizations that share a free plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedUsage {
    /// The number of organizations.
    pub orgs: u64,
    /// The bytes that they count with in the store.
    pub stored_bytes: u64,
    /// Their other usage. Monthly figures include organizations that were deleted or handed over during the month.
    pub usage: AccountUsage,
}

/// Returns the combined usage of an organization and those that share its free plan; `None` if it does not share one.
pub async fn shared_usage(pool: &PgPool, org: &OrgId, now: Timestamp) -> Result<Option<SharedUsage>, sqlx::Error> {
    let month = Month::from_timestamp(now);
    let row = sqlx::query!(
        r#"WITH owned AS (SELECT id, share_name FROM projects WHERE org_id = ANY(ARRAY(SELECT orgs_counted_with($1))))
           SELECT (SELECT count(*) FROM orgs_counted_with($1)) AS "orgs!",
                  (SELECT count(*) FROM orgs_sharing_month($1, $2)) AS "sharing!",
                  (SELECT COALESCE(sum(f.people_bytes), 0)::bigint FROM orgs o JOIN former_payers f ON f.payer = o.created_by
                   WHERE o.id = $1 AND NOT has_plan($1) AND NOT was_paid_since($1, $2) AND f.left_at >= $2
                     AND NOT EXISTS (SELECT FROM orgs again WHERE again.id = f.org_id AND again.created_by = f.payer)) AS "left!",
                  (SELECT count(*) FROM owned WHERE share_name IS NULL) AS "projects!",
                  (SELECT count(*) FROM custom_domains d JOIN owned ON owned.id = d.project_id) AS "domains!",
                  (SELECT COALESCE(sum(greatest(COALESCE(d.stored_bytes, d.bytes) + $5::bigint, $6)), 0)::bigint FROM deployments d
                   JOIN owned ON owned.id = d.project_id WHERE d.status IN ('live', 'superseded')) AS "stored_bytes!",
                  (SELECT COALESCE(sum(people_bytes), 0)::bigint FROM bandwidth_months
                   WHERE month = $4 AND account = ANY(ARRAY(SELECT orgs_sharing_month($1, $2))))
                  + (SELECT COALESCE(sum(sums[11]), 0)::bigint FROM traffic_recent
                     WHERE account = ANY(ARRAY(SELECT orgs_sharing_month($1, $2))) AND hour >= $2 AND hour < $3) AS "bandwidth!""#,
        org.as_str(),
        month.start(),
        month.next().start(),
        month.first_day(),
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_one(pool)
    .await?;
    if row.orgs <= 1 && row.sharing <= 1 && row.left == 0 {
        return Ok(None);
    }
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let usage = AccountUsage {
        projects: count(row.projects),
        domains: count(row.domains),
        bandwidth_bytes: count(row.bandwidth) + count(row.left),
        ai_cost: free_credit::sum_shared_cost(pool, org, month).await?,
    };
    Ok(Some(SharedUsage { orgs: count(row.orgs), stored_bytes: count(row.stored_bytes), usage }))
}
