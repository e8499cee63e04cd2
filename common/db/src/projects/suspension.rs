//! Suspension of a site or a whole account by the operator, and so without permits. Owners can see their suspensions.
//!
//! The suspension of a site is in its row, which its owner cannot delete meanwhile. That of an account is a row of
//! `account_suspensions`, which also covers everything that the account gets later: edges check it with every site and
//! AI key that they read. Every operation that publishes, moves, gives up or deletes something checks [`find_for_project`] or
//! [`find_for_account`] under the lock of its subject.
//!
//! A suspended person can act nowhere, and neither can deploy tokens of organizations that only suspended people own:
//! see [`find_for_actor`]. The sites of such an organization stay up until it is suspended too: see
//! [`orgs`](super::suspended_orgs).

use domain::{
    Account, OrgId, ProjectId, ProjectName, ShareName, Timestamp, UserId, changes::PendingChange,
    limits::PROJECT_RESTORABLE, site::Suspension,
};
use sqlx::{PgConnection, PgExecutor};

use super::project::{Project, select_projects};
use crate::{audit::Actor, quotas};

/// The suspension that forbids an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuspendedError {
    /// The operator has suspended the site.
    #[error("the site is suspended")]
    Site(Suspension),
    /// The operator has suspended the current or the future owner.
    #[error("the account is suspended")]
    Account(Suspension),
    /// The operator has suspended all owners of the organization for which a token or a push acts.
    #[error("the organization's owners are suspended")]
    Owners(Suspension),
}

impl SuspendedError {
    /// Returns the reason.
    pub fn reason(self) -> Suspension {
        match self {
            Self::Site(reason) | Self::Account(reason) | Self::Owners(reason) => reason,
        }
    }
}

/// Returns the suspension of the project or its owner.
pub async fn find_for_project(
    db: impl PgExecutor<'_>,
    project: &ProjectId,
) -> Result<Option<SuspendedError>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT CASE WHEN p.suspended_at IS NOT NULL THEN COALESCE(p.suspended_for, 'abuse') END AS "site?: Suspension",
                  s.reason AS "account?: Suspension"
           FROM projects p LEFT JOIN account_suspensions s ON s.account = COALESCE(p.org_id, p.user_id)
           WHERE p.id = $1"#,
        project.as_str(),
    )
    .fetch_optional(db)
    .await?;
    Ok(row.and_then(|row| row.site.map(SuspendedError::Site).or(row.account.map(SuspendedError::Account))))
}

/// Returns the suspension of the account.
pub async fn find_for_account(
    db: impl PgExecutor<'_>,
    account: &Account,
) -> Result<Option<SuspendedError>, sqlx::Error> {
    Ok(find_account(db, account).await?.map(|found| SuspendedError::Account(found.reason)))
}

/// Returns the suspension of a person or, for a deploy token of `org` or a push to its repository, of all its owners.
pub async fn find_for_actor(
    db: impl PgExecutor<'_>,
    actor: Actor<'_>,
    org: Option<&OrgId>,
) -> Result<Option<SuspendedError>, sqlx::Error> {
    match (actor, org) {
        (Actor::User { id, .. }, _) => find_for_account(db, &Account::User(id.clone())).await,
        (Actor::DeployToken { .. } | Actor::CodeHost(_), Some(org)) => find_for_owners(db, org).await,
        (Actor::DeployToken { .. } | Actor::CodeHost(_), None) | (Actor::Platform, _) => Ok(None),
    }
}

/// Returns the suspension of an organization's owners, if all are suspended.
async fn find_for_owners(db: impl PgExecutor<'_>, org: &OrgId) -> Result<Option<SuspendedError>, sqlx::Error> {
    let reason = sqlx::query_scalar!(r#"SELECT find_suspension_of_owners($1) AS "reason: Suspension""#, org.as_str(),);
    Ok(reason.fetch_one(db).await?.map(SuspendedError::Owners))
}

/// The suspension of an account.
#[derive(Debug, Clone, Copy)]
pub struct AccountSuspension {
    /// The reason.
    pub reason: Suspension,
    /// The time of the suspension.
    pub suspended_at: Timestamp,
}

/// Returns the suspension of an account, if it has one.
pub async fn find_account(
    db: impl PgExecutor<'_>,
    account: &Account,
) -> Result<Option<AccountSuspension>, sqlx::Error> {
    sqlx::query_as!(
        AccountSuspension,
        r#"SELECT reason AS "reason: Suspension", suspended_at FROM account_suspensions WHERE account = $1"#,
        account.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// An account as an operator names it.
#[derive(Debug, Clone)]
pub struct NamedAccount {
    /// The account.
    pub account: Account,
    /// The login of the person, or the name of the organization.
    pub name: String,
}

/// Returns the accounts with this id, login or name: at most one, unless a person and an organization share it.
pub async fn find_named_accounts(db: impl PgExecutor<'_>, name: &str) -> Result<Vec<NamedAccount>, sqlx::Error> {
    sqlx::query_as!(
        NamedAccount,
        r#"SELECT id AS "account!: Account", vcs_login AS "name!" FROM users WHERE id = $1 OR lower(vcs_login) = lower($1)
           UNION ALL
           SELECT id, name FROM orgs WHERE id = $1 OR name = $1
           ORDER BY 1"#,
        name,
    )
    .fetch_all(db)
    .await
}

/// Suspends an account for `reason`, or resumes it. Returns what edges must forget: all of the account's sites and AI
/// keys.
pub async fn set_account_suspended(
    conn: &mut PgConnection,
    account: &Account,
    reason: Option<Suspension>,
    now: Timestamp,
) -> Result<PendingChange, sqlx::Error> {
    // A concurrent creation under this lock has finished, or waits and is then refused.
    quotas::lock(&mut *conn, account).await?;
    match reason {
        Some(reason) => {
            sqlx::query!(
                "INSERT INTO account_suspensions (account, reason, suspended_at) VALUES ($1, $2, $3)
                 ON CONFLICT (account) DO UPDATE SET reason = excluded.reason, suspended_at = excluded.suspended_at,
                                                     suspended_with = NULL",
                account.as_str(),
                reason.as_str(),
                now,
            )
            .execute(conn)
            .await?;
        }
        None => {
            sqlx::query!("DELETE FROM account_suspensions WHERE account = $1", account.as_str()).execute(conn).await?;
        }
    }
    Ok(PendingChange::new(account))
}

/// Returns the owner of the last deleted project called `name`, if it can still be restored.
pub async fn find_deleted_owner(
    db: impl PgExecutor<'_>,
    name: &ProjectName,
    now: Timestamp,
) -> Result<Option<Account>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT COALESCE(org_id, user_id) AS "owner!: Account" FROM deleted_projects
           WHERE name = $1 AND deleted_at > $2 ORDER BY deleted_at DESC LIMIT 1"#,
        name.as_str(),
        now - PROJECT_RESTORABLE,
    )
    .fetch_optional(db)
    .await
}

/// A suspended site.
#[derive(Debug, Clone)]
pub struct SuspendedSite {
    /// The project's id.
    pub id: ProjectId,
    /// The project's name.
    pub project: ProjectName,
    /// The reason.
    pub reason: Suspension,
    /// The time of the suspension.
    pub suspended_at: Timestamp,
}

/// Returns the owner's suspended sites, including shares, the newest project first: at most `rows`, older than
/// `before`. For a suspended owner these are all their sites.
pub async fn page(
    db: impl PgExecutor<'_>,
    owner: &Account,
    before: Option<&ProjectId>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<SuspendedSite>, sqlx::Error> {
    sqlx::query_as!(
        SuspendedSite,
        r#"SELECT p.id, p.name AS project,
                  CASE WHEN p.suspended_at IS NOT NULL THEN COALESCE(p.suspended_for, 'abuse') ELSE s.reason END
                      AS "reason!: Suspension",
                  COALESCE(p.suspended_at, s.suspended_at) AS "suspended_at!"
           FROM projects p LEFT JOIN account_suspensions s ON s.account = COALESCE(p.org_id, p.user_id)
           WHERE (p.user_id = $1 OR p.org_id = $2) AND (p.suspended_at IS NOT NULL OR s.account IS NOT NULL)
                 AND (p.expires_at IS NULL OR p.expires_at > $3) AND ($4::text IS NULL OR p.id < $4)
           ORDER BY p.id DESC LIMIT $5"#,
        owner.as_user().map(UserId::as_str),
        owner.as_org().map(OrgId::as_str),
        now as Timestamp,
        before.map(ProjectId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Suspends a site for `reason`, replacing an earlier reason, or resumes it without one. `name` is that of a project,
/// otherwise the words of a share. Returns the project and what edges must forget; `None` when there is no such site.
pub async fn set_suspended(
    conn: &mut PgConnection,
    name: Option<&ProjectName>,
    share: Option<&ShareName>,
    reason: Option<Suspension>,
    now: Timestamp,
) -> Result<Option<(Project, PendingChange)>, sqlx::Error> {
    // A project may be named like a share, and then comes first.
    let project = select_projects!(
        "WHERE p.name = $1 OR p.share_name = $2
         ORDER BY p.share_name IS NOT NULL, p.id LIMIT 1 FOR NO KEY UPDATE OF p",
        name.map(ProjectName::as_str),
        share.map(ShareName::as_str),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(project) = project else { return Ok(None) };
    sqlx::query!(
        "UPDATE projects SET suspended_for = $2, suspended_at = CASE WHEN $2::text IS NULL THEN NULL ELSE $3::timestamptz END
         WHERE id = $1",
        project.id.as_str(),
        reason.map(Suspension::as_str),
        now as Timestamp,
    )
    .execute(conn)
    .await?;
    let touched = PendingChange::new(&project.id);
    Ok(Some((project, touched)))
}
