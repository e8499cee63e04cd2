//! An account's current plan: that of its subscription while it is active or past due, otherwise the cheapest.

use domain::{
    Account, OrgId,
    plans::{PlanAllowance, PlanLimits, Plans},
};
use sqlx::{PgConnection, PgExecutor};

use crate::quotas;

/// Returns the id of the plan that the account is entitled to by a subscription. It may be missing from the
/// configuration.
pub async fn subscribed_plan(db: impl PgExecutor<'_>, account: &Account) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT plan FROM subscriptions WHERE account = $1 AND status IN ('active', 'past_due')",
        account.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// The plan that an account is subscribed to, and the plan that it was charged for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChargedPlan {
    /// The subscribed plan, as returned by [`subscribed_plan`].
    pub subscribed: Option<String>,
    /// The plan that the current month was charged for, if any: a cheaper one after an upgrade during the month.
    pub charged: Option<String>,
}

/// Returns the plan that the account is subscribed to and the plan that it was charged for.
pub async fn charged_plan(db: impl PgExecutor<'_>, account: &Account) -> Result<ChargedPlan, sqlx::Error> {
    let found = sqlx::query!(
        r#"SELECT s.plan, (SELECT p.plan FROM payments p WHERE p.subscription_id = s.id AND p.period = s.period
                          ORDER BY p.attempt DESC LIMIT 1) AS charged
           FROM subscriptions s WHERE s.account = $1 AND s.status IN ('active', 'past_due')"#,
        account.as_str(),
    )
    .fetch_optional(db)
    .await?;
    Ok(found.map(|found| ChargedPlan { subscribed: Some(found.plan), charged: found.charged }).unwrap_or_default())
}

/// Returns the limits of the account's plan.
pub async fn limits(db: impl PgExecutor<'_>, plans: &Plans, account: &Account) -> Result<PlanLimits, sqlx::Error> {
    Ok(plans.limits_for(subscribed_plan(db, account).await?.as_deref()))
}

/// Returns the allowance of the account's plan, for an early check. Use [`lock_allowance`] for the decision.
///
/// After a downgrade is scheduled for the next month, new resources must fit the smaller plan. The alternative, to
/// refuse the downgrade at the renewal, would charge more than the announced invoice. The account can undo this by
/// choosing its current plan again.
///
/// Organizations are limited by the plan that was paid for, because each has a plan of its own. One whose payer is no
/// owner any more has room for nothing new.
pub async fn allowance<'p>(
    db: impl PgExecutor<'_>,
    plans: &'p Plans,
    account: &Account,
) -> Result<PlanAllowance<'p>, sqlx::Error> {
    let found = sqlx::query!(
        r#"SELECT s.plan AS "plan?", s.next_plan, COALESCE(s.status = 'past_due', false) AS "is_past_due!",
                  (SELECT p.plan FROM payments p WHERE p.subscription_id = s.id AND p.period = s.period
                   ORDER BY p.attempt DESC LIMIT 1) AS charged,
                  (SELECT count(*) > 1 FROM orgs_counted_with($2)) AS "is_shared!",
                  s.plan IS NULL AND EXISTS (
                      SELECT FROM orgs o WHERE o.id = $2 AND NOT EXISTS (
                          SELECT FROM org_members m WHERE m.org_id = o.id AND m.user_id = o.created_by AND m.role = 'owner')
                  ) AS "lacks_payer!"
           FROM (SELECT) AS one LEFT JOIN subscriptions s ON s.account = $1 AND s.status IN ('active', 'past_due')"#,
        account.as_str(),
        account.as_org().map(OrgId::as_str),
    )
    .fetch_one(db)
    .await?;
    // A past-due month is unpaid, so it counts like the default plan.
    let unpaid = plans.default_plan().filter(|_| found.is_past_due).map(|(id, _)| id);
    let charged = unpaid.or(found.charged.as_deref());
    let allowance = plans.allowance_for(found.plan.as_deref(), charged, found.next_plan.as_deref());
    Ok(allowance.shared(found.is_shared).without_payer(found.lacks_payer))
}

/// Locks the account, and returns its allowance. Until the end of the transaction, neither the counted usage nor the
/// plan changes, as long as every change of a plan holds [`quotas::lock`] too.
pub async fn lock_allowance<'p>(
    conn: &mut PgConnection,
    plans: &'p Plans,
    account: &Account,
) -> Result<PlanAllowance<'p>, sqlx::Error> {
    quotas::lock(&mut *conn, account).await?;
    // A separate statement, so that it sees everything committed while waiting for the lock.
    allowance(conn, plans, account).await
}

/// Returns the number of deployments that each of the account's projects keeps: the highest of its current plan and
/// every plan that it has paid for, so that ending or downgrading a subscription deletes nothing.
pub async fn kept_deployments(conn: &mut PgConnection, plans: &Plans, account: &Account) -> Result<u32, sqlx::Error> {
    let now = limits(&mut *conn, plans, account).await?.deployments;
    let former = sqlx::query_scalar!(
        r#"SELECT plan AS "plan!" FROM payments WHERE account = $1 AND state = 'paid'
           UNION SELECT plan FROM subscriptions WHERE account = $1 AND anchored_at IS NOT NULL"#,
        account.as_str(),
    )
    .fetch_all(conn)
    .await?;
    let most = plans.max_deployments(former.iter().map(String::as_str));
    Ok(most.map_or(now, |most| most.max(now)))
}

/// Returns the ids of the plans that subscriptions entitle to, each with its number of subscriptions.
pub async fn subscriptions_by_plan(db: impl PgExecutor<'_>) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT plan, count(*) AS "count!" FROM subscriptions WHERE status IN ('active', 'past_due')
           GROUP BY plan ORDER BY plan"#,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.plan, row.count)).collect())
}
