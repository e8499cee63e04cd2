//! What an account has used of its plan. Looked at before work begins, and again under the account's [`lock`] in the
//! transaction that uses more.
//!
//! Not here: what a plan allows, which is in the crate `domain`; custom domains and organizations, which are counted where
//! they are made.

use domain::{Account, OrgId, ProjectId, Timestamp, UserId, plans::PlanLimits};
use sqlx::{PgConnection, PgExecutor};

use crate::permits;

/// A limit of the owner's plan that leaves no room, with what it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaReached {
    /// So many projects, shares not counted.
    #[error("the plan allows {0} projects")]
    Projects(u32),
    /// So many shares that have not expired.
    #[error("the plan allows {0} shares")]
    Shares(u32),
    /// So many bytes in the store.
    #[error("the plan allows {0} bytes in the store")]
    StoredBytes(u64),
}

/// Why something was not counted in.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// The plan has no room for it.
    #[error(transparent)]
    Reached(#[from] QuotaReached),
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Locks the account until the end of the transaction, so that those who use up its plan concurrently come one after the
/// other. What is counted afterwards includes what was committed while the lock was waited for.
pub async fn lock(conn: &mut PgConnection, account: &Account) -> Result<(), sqlx::Error> {
    match account {
        Account::User(user) => {
            sqlx::query!("SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE", user.as_str())
                .fetch_optional(conn)
                .await?;
        }
        Account::Org(org) => drop(permits::lock_row(conn, org).await?),
    }
    Ok(())
}

/// Checks that the account may have one project more.
pub async fn projects(db: impl PgExecutor<'_>, account: &Account, limits: &PlanLimits) -> Result<(), QuotaError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM projects WHERE (user_id = $1 OR org_id = $2) AND share_name IS NULL"#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
    )
    .fetch_one(db)
    .await?;
    if count < i64::from(limits.projects) { Ok(()) } else { Err(QuotaReached::Projects(limits.projects).into()) }
}

/// Checks that the person may have one share more.
pub async fn shares(
    db: impl PgExecutor<'_>,
    user: &UserId,
    limits: &PlanLimits,
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
    if count < i64::from(limits.shares) { Ok(()) } else { Err(QuotaReached::Shares(limits.shares).into()) }
}

/// Checks that the store may keep `more` bytes for the account.
pub async fn stored_bytes(
    db: impl PgExecutor<'_>,
    account: &Account,
    more: u64,
    limits: &PlanLimits,
) -> Result<(), QuotaError> {
    // A deployment that was published before its stored size was noted counts with its files alone.
    let stored = sqlx::query_scalar!(
        r#"SELECT COALESCE(sum(COALESCE(d.stored_bytes, d.bytes)), 0)::bigint AS "bytes!"
           FROM deployments d JOIN projects p ON p.id = d.project_id
           WHERE (p.user_id = $1 OR p.org_id = $2) AND d.status IN ('live', 'superseded')"#,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
    )
    .fetch_one(db)
    .await?;
    let stored = u64::try_from(stored).unwrap_or_default().saturating_add(more);
    if stored <= limits.storage_bytes { Ok(()) } else { Err(QuotaReached::StoredBytes(limits.storage_bytes).into()) }
}

/// Returns the bytes that the store keeps of a project.
pub(crate) async fn stored_by_project(db: impl PgExecutor<'_>, project: &ProjectId) -> Result<u64, sqlx::Error> {
    let stored = sqlx::query_scalar!(
        r#"SELECT COALESCE(sum(COALESCE(stored_bytes, bytes)), 0)::bigint AS "bytes!"
           FROM deployments WHERE project_id = $1 AND status IN ('live', 'superseded')"#,
        project.as_str(),
    )
    .fetch_one(db)
    .await?;
    Ok(u64::try_from(stored).unwrap_or_default())
}
