//! The maximum monthly cost of an organization's AI keys, set by its owners in addition to the limit of its plan.

use domain::usage::MonthlyLimit;
use sqlx::{PgConnection, PgExecutor};

use crate::permits::{AtLeast, LockedOrg, Member, OrgPermit, Owner};

/// Returns the org's limit; `None` when none is set.
pub async fn find(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Member>>,
) -> Result<Option<MonthlyLimit>, sqlx::Error> {
    sqlx::query_scalar!("SELECT ai_monthly_limit_cents FROM orgs WHERE id = $1", org.id.as_str())
        .fetch_optional(db)
        .await
        .map(Option::flatten)
}

/// Sets or removes the org's limit.
pub async fn set(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Owner>>,
    limit: Option<MonthlyLimit>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE orgs SET ai_monthly_limit_cents = $2 WHERE id = $1",
        org.id.as_str(),
        limit as Option<MonthlyLimit>,
    )
    .execute(conn)
    .await
    .map(drop)
}
