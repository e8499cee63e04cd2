//! The person against whose free plan an organization counts while it has no subscription, recorded as
//! `orgs.created_by`: at first whoever created it.
//!
//! If another owner removes or demotes the payer, that owner pays from then on, if their plan has room: acting is
//! consent. Otherwise, and when the payer leaves, nothing new is made in the organization until an owner takes it over
//! with [`take_over`], because nobody is handed an organization unasked. What there is counts for who has left until
//! then, as leaving must not make room for ever further organizations. One that the operator has suspended, or with a
//! suspended site, keeps its payer.

use domain::{
    Account, OrgId, Timestamp, UserId,
    limits::{PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
    month::Month,
    plans::{LimitKind, LimitReached, Plans},
    role::Role,
};
use sqlx::{PgConnection, PgExecutor};

use crate::{
    billing::plan,
    permits::{AtLeast, LockedOrg, Owner, PermitLevel},
    projects::suspension::{self, SuspendedError},
};

/// What became of the payer of an organization when a member left or was demoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayerChange {
    /// The payer is the same as before.
    None,
    /// The owner who acted pays from now on.
    TakenOver,
    /// The payer is no owner any more: nothing new is made until an owner takes the organization over.
    Left,
}

/// The reason an organization was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The operator has suspended the organization or one of its sites.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The new payer's plan has no room for the organization.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Makes the owner who acts the organization's payer, if their plan has room for it. Returns whether they were not.
pub async fn take_over(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Owner>>,
    plans: &Plans,
    now: Timestamp,
) -> Result<bool, TakeOverError> {
    let former = find(&mut *conn, &org.id).await?;
    if former.as_ref() == Some(org.user()) {
        return Ok(false);
    }
    hand_over(conn, &org.id, former.as_ref(), org.user(), plans, now).await?;
    Ok(true)
}

/// Changes the payer if it is `former`, who is an owner no more. The caller has changed the members already.
pub(super) async fn replace_former_owner(
    conn: &mut PgConnection,
    org: &LockedOrg<impl PermitLevel>,
    former: &UserId,
    plans: &Plans,
    now: Timestamp,
) -> Result<PayerChange, sqlx::Error> {
    if find(&mut *conn, &org.id).await?.as_ref() != Some(former) {
        return Ok(PayerChange::None);
    }
    if org.user() != former && org.role() == Role::Owner {
        match hand_over(&mut *conn, &org.id, Some(former), org.user(), plans, now).await {
            Ok(()) => return Ok(PayerChange::TakenOver),
            Err(TakeOverError::Suspended(_)) => return Ok(PayerChange::None),
            Err(TakeOverError::Quota(_)) => {}
            Err(TakeOverError::Db(error)) => return Err(error),
        }
    }
    Ok(PayerChange::Left)
}

async fn find(db: impl PgExecutor<'_>, org: &OrgId) -> Result<Option<UserId>, sqlx::Error> {
    let payer = sqlx::query_scalar!(r#"SELECT created_by AS "payer?: UserId" FROM orgs WHERE id = $1"#, org.as_str(),);
    Ok(payer.fetch_optional(db).await?.flatten())
}

/// Makes `payer` pay instead of `former`. The caller has locked the organization. A refusal has written nothing.
async fn hand_over(
    conn: &mut PgConnection,
    org: &OrgId,
    former: Option<&UserId>,
    payer: &UserId,
    plans: &Plans,
    now: Timestamp,
) -> Result<(), TakeOverError> {
    // Both in one order, so that two owners who take over each other's organizations do not wait for each other.
    let people: Vec<&str> = former.into_iter().chain([payer]).map(UserId::as_str).collect();
    sqlx::query!("SELECT id FROM users WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE", &people as &[&str])
        .fetch_all(&mut *conn)
        .await?;
    if let Some(suspended) = find_suspended(&mut *conn, org).await? {
        return Err(suspended.into());
    }
    check_room(&mut *conn, org, payer, plans).await?;
    if let Some(former) = former {
        record_former(&mut *conn, org, former, now).await?;
    }
    sqlx::query!("UPDATE orgs SET created_by = $2 WHERE id = $1", org.as_str(), payer.as_str()).execute(conn).await?;
    Ok(())
}

/// Checks that the plan of `payer` allows one more organization and, unless it has a subscription, that the free plan
/// of their organizations has room for what this one has.
async fn check_room(conn: &mut PgConnection, org: &OrgId, payer: &UserId, plans: &Plans) -> Result<(), TakeOverError> {
    let allowance = plan::lock_allowance(&mut *conn, plans, &Account::User(payer.clone())).await?;
    let taken = sqlx::query!(
        r#"WITH pool AS MATERIALIZED (
               SELECT $2::text AS id UNION SELECT id FROM orgs WHERE created_by = $1 AND NOT has_plan(id)
           ), owned AS MATERIALIZED (
               SELECT id FROM projects WHERE org_id = ANY(ARRAY(SELECT id FROM pool)))
           SELECT (SELECT count(*) FROM orgs WHERE created_by = $1 AND id <> $2) AS "orgs!",
                  has_plan($2) AS "has_plan!",
                  (SELECT count(*) FROM owned) AS "projects!",
                  (SELECT count(*) FROM custom_domains d JOIN owned ON owned.id = d.project_id) AS "domains!",
                  (SELECT COALESCE(sum(greatest(COALESCE(d.stored_bytes, d.bytes) + $3::bigint, $4)), 0)::bigint FROM deployments d
                   JOIN owned ON owned.id = d.project_id WHERE d.status IN ('live', 'superseded')) AS "stored_bytes!""#,
        payer.as_str(),
        org.as_str(),
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_one(conn)
    .await?;
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    allowance.check(LimitKind::Orgs, count(taken.orgs) + 1)?;
    if !taken.has_plan {
        let free = plans.allowance_for(None, None, None).shared(true);
        free.check(LimitKind::Projects, count(taken.projects))?;
        free.check(LimitKind::Domains, count(taken.domains))?;
        free.check(LimitKind::StoredBytes, count(taken.stored_bytes))?;
    }
    Ok(())
}

/// Returns the suspension of the organization or of one of its sites.
async fn find_suspended(conn: &mut PgConnection, org: &OrgId) -> Result<Option<SuspendedError>, sqlx::Error> {
    if let Some(suspended) = suspension::find_for_account(&mut *conn, &Account::Org(org.clone())).await? {
        return Ok(Some(suspended));
    }
    let site = sqlx::query_scalar!(
        r#"SELECT COALESCE(suspended_for, 'abuse') AS "reason!: ::domain::site::Suspension" FROM projects
           WHERE org_id = $1 AND suspended_at IS NOT NULL LIMIT 1"#,
        org.as_str(),
    );
    Ok(site.fetch_optional(conn).await?.map(SuspendedError::Site))
}

/// Records who has paid until now, with what counts for them until the month is over: nothing of what was paid for.
async fn record_former(
    conn: &mut PgConnection,
    org: &OrgId,
    former: &UserId,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let month = Month::from_timestamp(now);
    sqlx::query!(
        "WITH sent AS MATERIALIZED (
             SELECT CASE WHEN has_plan($1) OR was_paid_since($1, $4) THEN 0 ELSE
                 (SELECT COALESCE(sum(people_bytes), 0)::bigint FROM bandwidth_months WHERE month = $6 AND account = $1)
                 + (SELECT COALESCE(sum(sums[11]), 0)::bigint FROM traffic_recent
                    WHERE account = $1 AND hour >= $4 AND hour < $5)
                 END AS people_bytes)
         INSERT INTO former_payers (payer, org_id, left_at, people_bytes)
         SELECT $2, $1, $3, people_bytes FROM sent WHERE people_bytes > 0
         ON CONFLICT (payer, org_id) DO UPDATE SET left_at = excluded.left_at, people_bytes = excluded.people_bytes",
        org.as_str(),
        former.as_str(),
        now as Timestamp,
        month.start(),
        month.next().start(),
        month.first_day(),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Deletes at most `limit` records of persons who stopped paying before `before`, and returns their number.
pub async fn delete_former(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM former_payers WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM former_payers WHERE left_at < $1 ORDER BY left_at LIMIT $2))",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
