//! An account's usage, checked against its plan: before work begins, and again under its [`lock`] in the transaction.
//!
//! Organizations without a subscription share one free plan with the others of the same payer, because a person may
//! create many of them: see [`orgs::payer`](crate::orgs::payer). Their usage is the sum over all of them
//! (`orgs_counted_with`), and never includes the person's own.
//!
//! The limits of plans are in the crate `domain`. [`crate::billing::plan`] reads an account's plan, locked where it
//! decides.

use domain::{
    Account, OrgId, ProjectId, Timestamp, UserId,
    limits::{DEPLOYMENTS_PER_KEPT, PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
    plans::{LimitKind, LimitReached, PlanAllowance},
};
use sqlx::{PgConnection, PgExecutor};

use crate::{permits, upkeep::held_packs};

/// The reason a quota check failed.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// The plan has no room.
    #[error(transparent)]
    Reached(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Locks the account until the end of the transaction, so that concurrent users of its plan are serialized. Counts made
/// afterwards include everything committed while waiting for the lock.
pub async fn lock(conn: &mut PgConnection, account: &Account) -> Result<(), sqlx::Error> {
    match account {
        Account::User(user) => {
            sqlx::query!("SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE", user.as_str())
                .fetch_optional(conn)
                .await?;
        }
        Account::Org(org) => {
            permits::lock_row(&mut *conn, org).await?;
            // Organizations that share a plan also share a lock, that of their payer, taken after their own.
            sqlx::query!(
                "SELECT u.id FROM users u JOIN orgs o ON o.created_by = u.id
                 WHERE o.id = $1 AND NOT has_plan(o.id) FOR NO KEY UPDATE OF u",
                org.as_str(),
            )
            .fetch_optional(conn)
            .await?;
        }
    }
    Ok(())
}

/// Checks that the account may have one more project.
pub async fn projects(
    db: impl PgExecutor<'_>,
    account: &Account,
    allowance: &PlanAllowance<'_>,
) -> Result<(), QuotaError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM projects
           WHERE (user_id = $1 OR org_id = ANY(ARRAY(SELECT orgs_counted_with($2)))) AND share_name IS NULL"#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
    )
    .fetch_one(db)
    .await?;
    Ok(allowance.check(LimitKind::Projects, whole(count) + 1)?)
}

/// Checks that the person may have one more share.
pub async fn shares(
    db: impl PgExecutor<'_>,
    user: &UserId,
    allowance: &PlanAllowance<'_>,
    now: Timestamp,
) -> Result<(), QuotaError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM projects
           WHERE user_id = $1 AND share_name IS NOT NULL AND expires_at > $2"#,
        user.as_str(),
        now,
    )
    .fetch_one(db)
    .await?;
    Ok(allowance.check(LimitKind::Shares, whole(count) + 1)?)
}

/// Checks that the store may keep `more` bytes for the account. Deployments count with their size on disk, as
/// [`UploadContent::counted_bytes`] computes it, so that many small ones are not free.
///
/// [`UploadContent::counted_bytes`]: crate::projects::deployments::UploadContent::counted_bytes
pub async fn stored_bytes(
    db: impl PgExecutor<'_>,
    account: &Account,
    more: u64,
    allowance: &PlanAllowance<'_>,
) -> Result<(), QuotaError> {
    // A deployment without a recorded stored size, from before it was recorded, counts with the size of its files.
    let stored = sqlx::query_scalar!(
        r#"SELECT COALESCE(sum(greatest(COALESCE(d.stored_bytes, d.bytes) + $3::bigint, $4)), 0)::bigint AS "bytes!"
           FROM deployments d JOIN projects p ON p.id = d.project_id
           WHERE (p.user_id = $1 OR p.org_id = ANY(ARRAY(SELECT orgs_counted_with($2)))) AND d.status IN ('live', 'superseded')"#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_one(db)
    .await?;
    Ok(allowance.check(LimitKind::StoredBytes, whole(stored).saturating_add(more))?)
}

/// Checks that the account's deleted data in the store leaves room for more. Deleted data does not count against the
/// plan, and is removed early beyond the plan's storage; this refuses accounts that delete faster than that.
pub async fn deleted_bytes(
    conn: &mut PgConnection,
    account: &Account,
    allowance: &PlanAllowance<'_>,
    now: Timestamp,
) -> Result<(), QuotaError> {
    let payer = held_packs::payer(&mut *conn, account).await?;
    let held = held_packs::find_for_payer(&mut *conn, &payer, now).await?;
    // Restorable data was bounded when it was deleted.
    Ok(allowance.check(LimitKind::DeletedBytes, held.trashed.saturating_add(held.due))?)
}

/// Checks that the project may have one more deployment with files: a multiple of the number `kept` by its owner's
/// plan. Older deployments are not deleted instead, because they are promised to stay for 30 days and the owner decides
/// which to delete.
pub async fn deployments(
    db: impl PgExecutor<'_>,
    project: &ProjectId,
    kept: u32,
    allowance: &PlanAllowance<'_>,
) -> Result<(), QuotaError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM deployments WHERE project_id = $1 AND status IN ('live', 'superseded')"#,
        project.as_str(),
    )
    .fetch_one(db)
    .await?;
    let allowed = u64::from(kept) * u64::from(DEPLOYMENTS_PER_KEPT);
    Ok(allowance.check_at_most(LimitKind::Deployments, whole(count) + 1, allowed)?)
}

/// Checks that the account may have `more` custom domains.
pub async fn domains(
    db: impl PgExecutor<'_>,
    account: &Account,
    more: u64,
    allowance: &PlanAllowance<'_>,
) -> Result<(), QuotaError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM custom_domains d JOIN projects p ON p.id = d.project_id
           WHERE p.user_id = $1 OR p.org_id = ANY(ARRAY(SELECT orgs_counted_with($2)))"#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
    )
    .fetch_one(db)
    .await?;
    Ok(allowance.check(LimitKind::Domains, whole(count).saturating_add(more))?)
}

/// Checks that the person may create one more organization. Those that they left count until they are taken over.
pub async fn orgs(db: impl PgExecutor<'_>, creator: &UserId, allowance: &PlanAllowance<'_>) -> Result<(), QuotaError> {
    let count = sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM orgs WHERE created_by = $1"#, creator.as_str())
        .fetch_one(db)
        .await?;
    Ok(allowance.check(LimitKind::Orgs, whole(count) + 1)?)
}

/// Checks that the organization has a seat for one more invite. Members and pending invites take one seat each.
pub async fn seats(
    db: impl PgExecutor<'_>,
    org: &OrgId,
    allowance: &PlanAllowance<'_>,
    now: Timestamp,
) -> Result<(), QuotaError> {
    let taken = sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM org_members WHERE org_id = $1)
                  + (SELECT count(*) FROM invites WHERE org_id = $1 AND ended_at IS NULL AND expires_at > $2) AS "count!""#,
        org.as_str(),
        now,
    )
    .fetch_one(db)
    .await?;
    Ok(allowance.check(LimitKind::Members, whole(taken) + 1)?)
}

/// Checks that the organization has a seat for a person who accepts an invite. Pending invites had theirs when they
/// were created; after a downgrade, the first to accept get the remaining seats.
pub async fn members(db: impl PgExecutor<'_>, org: &OrgId, allowance: &PlanAllowance<'_>) -> Result<(), QuotaError> {
    let members =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM org_members WHERE org_id = $1"#, org.as_str())
            .fetch_one(db)
            .await?;
    Ok(allowance.check(LimitKind::Members, whole(members) + 1)?)
}

pub(crate) async fn stored_by_project(db: impl PgExecutor<'_>, project: &ProjectId) -> Result<u64, sqlx::Error> {
    let stored = sqlx::query_scalar!(
        r#"SELECT COALESCE(sum(greatest(COALESCE(stored_bytes, bytes) + $2::bigint, $3)), 0)::bigint AS "bytes!"
           FROM deployments WHERE project_id = $1 AND status IN ('live', 'superseded')"#,
        project.as_str(),
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_one(db)
    .await?;
    Ok(whole(stored))
}

fn whole(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}
