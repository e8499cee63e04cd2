//! The creation, renaming and deletion of organizations.

use domain::{
    Account, OrgId, OrgName, Timestamp, UserId,
    billing::subscription::{EndReason, SubscriptionStatus},
    month::Month,
    orgs::DisplayName,
    plans::{LimitReached, Plans},
    role::Role,
};
use sqlx::{PgConnection, PgExecutor};

use super::{membership, org::Org};
use crate::{
    billing::{plan, subscriptions},
    names::{self, ReservedName},
    permits::{Admin, AtLeast, LockedOrg, OrgPermit, Owner, PermitLevel},
    projects::{
        deleted,
        suspension::{self, SuspendedError},
    },
    quotas::{self, QuotaError},
    sign_in::users::User,
};

/// Returns the number of the org's projects.
pub async fn count_projects(db: impl PgExecutor<'_>, org: &OrgPermit<impl PermitLevel>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM projects WHERE org_id = $1"#, org.id.as_str())
        .fetch_one(db)
        .await
}

/// The reason an org was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateOrgError {
    /// The name is in use.
    #[error("the name is taken")]
    NameTaken,
    /// The name is reserved for its former owners for a while.
    #[error("the name is kept for its former owners")]
    NameKept,
    /// The creator's plan allows no more.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// The creator has deleted as many orgs this month as the plan allows to exist.
    #[error("too many organizations were deleted this month")]
    TooManyDeleted,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<QuotaError> for CreateOrgError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

/// Creates an org with `creator` as its owner, if their plan has room: existing orgs that they created count. Former
/// owners may reuse the name of a deleted org immediately.
pub async fn create(
    conn: &mut PgConnection,
    creator: &User,
    name: &OrgName,
    display_name: Option<&DisplayName>,
    plans: &Plans,
    now: Timestamp,
) -> Result<Org, CreateOrgError> {
    let allowance = plan::lock_allowance(conn, plans, &Account::User(creator.id.clone())).await?;
    quotas::orgs(&mut *conn, &creator.id, &allowance).await?;
    let deleted = count_deleted(&mut *conn, &creator.id, Month::from_timestamp(now)).await?;
    if deleted >= i64::from(allowance.limits().orgs) {
        return Err(CreateOrgError::TooManyDeleted);
    }
    let org = Org {
        id: OrgId::new(now),
        name: name.clone(),
        display_name: display_name.cloned(),
        icon: None,
        created_at: now,
    };
    let inserted = sqlx::query!(
        "INSERT INTO orgs (id, name, display_name, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (name) DO NOTHING",
        org.id.as_str(),
        org.name.as_str(),
        org.display_name.as_ref().map(DisplayName::as_str),
        now,
        creator.id.as_str(),
    )
    .execute(&mut *conn)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(CreateOrgError::NameTaken);
    }
    if !names::reclaim(&mut *conn, ReservedName::Org(name), &[creator.id.to_string()], now).await? {
        return Err(CreateOrgError::NameKept);
    }
    membership::insert(conn, &org.id, &creator.id, Role::Owner, now).await?;
    Ok(org)
}

/// Returns the number of remembered orgs of a creator that were deleted in a month. They count because each new org
/// would get its plan's monthly grants, such as AI credit, again.
async fn count_deleted(db: impl PgExecutor<'_>, creator: &UserId, month: Month) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM deleted_orgs WHERE created_by = $1 AND deleted_at >= $2"#,
        creator.as_str(),
        month.start(),
    )
    .fetch_one(db)
    .await
}

/// Records the deletion of an org, unless it used none of its plan's monthly grants.
async fn record_deletion(conn: &mut PgConnection, id: &OrgId, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO deleted_orgs (id, created_by, deleted_at)
         SELECT o.id, o.created_by, $2 FROM orgs o
         WHERE o.id = $1 AND o.created_by IS NOT NULL
           AND (EXISTS (SELECT FROM ai_usage_days u WHERE u.account_id = o.id AND u.day >= $3)
                OR EXISTS (SELECT FROM bandwidth_months b WHERE b.account = o.id AND b.month = $3))",
        id.as_str(),
        now,
        Month::from_timestamp(now).first_day(),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Deletes at most `limit` records of orgs deleted before `before`, and returns their number.
pub async fn delete_records(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query!(
        "DELETE FROM deleted_orgs WHERE id IN
             (SELECT id FROM deleted_orgs WHERE deleted_at < $1 ORDER BY deleted_at LIMIT $2)",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(forgotten.rows_affected())
}

/// Changes the org's display name.
pub async fn rename(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    display_name: Option<&DisplayName>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE orgs SET display_name = $2 WHERE id = $1",
        org.id.as_str(),
        display_name.map(DisplayName::as_str),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// The reason an org was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteOrgError {
    /// The org has projects.
    #[error("the organization has projects")]
    NotEmpty,
    /// The operator has suspended the org; its members could otherwise continue in another.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The org has a subscription that entitles it to a plan.
    #[error("the organization has a subscription")]
    Subscribed,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl DeleteOrgError {
    /// Maps a violated constraint to [`Self::NotEmpty`]: a project was created after the count.
    fn from_db(error: sqlx::Error) -> Self {
        let by_project = error.as_database_error().is_some_and(|e| e.table() == Some("projects"));
        if by_project { Self::NotEmpty } else { error.into() }
    }
}

/// Deletes the org with its members, invites, tokens and icon. Its billing records stay, and its name is reserved for
/// its owners. A pending subscription ends, and a payment that still arrives for it is refunded.
pub async fn delete(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Owner>>,
    plans: &Plans,
    now: Timestamp,
) -> Result<(), DeleteOrgError> {
    if let Some(suspended) = suspension::find_for_account(&mut *conn, &Account::Org(org.id.clone())).await? {
        return Err(suspended.into());
    }
    if count_projects(&mut *conn, org).await? > 0 {
        return Err(DeleteOrgError::NotEmpty);
    }
    // The lock waits for payments that are being settled, which may activate the subscription.
    let subscriptions = subscriptions::lock(&mut *conn, &Account::Org(org.id.clone())).await?;
    for mut subscription in subscriptions {
        match subscription.status {
            SubscriptionStatus::Ended => {}
            SubscriptionStatus::Active | SubscriptionStatus::PastDue => return Err(DeleteOrgError::Subscribed),
            SubscriptionStatus::Pending => {
                subscription.status = SubscriptionStatus::Ended;
                (subscription.ended_at, subscription.end_reason) = (Some(now), Some(EndReason::Canceled));
                subscription.next_attempt_at = None;
                subscriptions::store(&mut *conn, &subscription).await?;
            }
        }
    }
    names::retire_org_name(&mut *conn, &org.id, &org.name, plans, now).await?;
    record_deletion(&mut *conn, &org.id, now).await?;
    deleted::forget_for_org(&mut *conn, &org.id, now).await?;
    sqlx::query!("DELETE FROM orgs WHERE id = $1", org.id.as_str())
        .execute(conn)
        .await
        .map(drop)
        .map_err(DeleteOrgError::from_db)
}
