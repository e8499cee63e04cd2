//! Taking down a site, or all that an account has, and letting it be served again: the operator's, so without a permit. Owners see
//! what is down.
//!
//! A site is suspended by its row, which its owner cannot delete meanwhile. An account is by a row of `account_suspensions`, which holds for
//! whatever the account gets later: edges judge it with every site and every AI key that they read. [`of_project`] and [`of_account`]
//! are asked, under the lock of what is changed, by every act that publishes, moves, gives up or deletes something.
//!
//! A suspended person acts nowhere: [`of_actor`] says so of them, and of the deploy tokens of organizations that only suspended people own.
//! Such an organization's sites stay up until it is suspended too: see [`orgs`](super::suspended_orgs).

use domain::{
    Account, OrgId, ProjectId, ProjectName, ShareName, Timestamp, UserId, changes::Touched, limits::PROJECT_RESTORABLE,
    site::Suspension,
};
use sqlx::{PgConnection, PgExecutor};

use super::project::{Project, select_projects};
use crate::{audit::Actor, quotas};

/// Why something stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Suspended {
    /// The operator has taken the site down.
    #[error("the site is suspended")]
    Site(Suspension),
    /// The operator has suspended the account that owns it, or that is to own it.
    #[error("the account is suspended")]
    Account(Suspension),
    /// The operator has suspended everybody who owns the organization, for which a token or a push acts.
    #[error("the organization's owners are suspended")]
    Owners(Suspension),
}

impl Suspended {
    /// Returns the reason.
    pub fn reason(self) -> Suspension {
        match self {
            Self::Site(reason) | Self::Account(reason) | Self::Owners(reason) => reason,
        }
    }
}

/// Returns whether the project, or its owner, is suspended.
pub async fn of_project(db: impl PgExecutor<'_>, project: &ProjectId) -> Result<Option<Suspended>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT CASE WHEN p.suspended_at IS NOT NULL THEN COALESCE(p.suspended_for, 'abuse') END AS "site?: Suspension",
                  s.reason AS "account?: Suspension"
           FROM projects p LEFT JOIN account_suspensions s ON s.account = COALESCE(p.org_id, p.user_id)
           WHERE p.id = $1"#,
        project.as_str(),
    )
    .fetch_optional(db)
    .await?;
    Ok(row.and_then(|row| row.site.map(Suspended::Site).or(row.account.map(Suspended::Account))))
}

/// Returns whether the account is suspended.
pub async fn of_account(db: impl PgExecutor<'_>, account: &Account) -> Result<Option<Suspended>, sqlx::Error> {
    Ok(find_account(db, account).await?.map(|found| Suspended::Account(found.reason)))
}

/// Returns whether somebody who acts is suspended: a person, or, for a deploy token of `org` and a push to its repository, all of the
/// organization's owners.
pub async fn of_actor(
    db: impl PgExecutor<'_>,
    actor: Actor<'_>,
    org: Option<&OrgId>,
) -> Result<Option<Suspended>, sqlx::Error> {
    match (actor, org) {
        (Actor::User { id, .. }, _) => of_account(db, &Account::User(id.clone())).await,
        (Actor::DeployToken { .. } | Actor::CodeHost(_), Some(org)) => of_owners(db, org).await,
        (Actor::DeployToken { .. } | Actor::CodeHost(_), None) | (Actor::Platform, _) => Ok(None),
    }
}

/// Returns whether all owners of the organization are suspended.
async fn of_owners(db: impl PgExecutor<'_>, org: &OrgId) -> Result<Option<Suspended>, sqlx::Error> {
    let reason = sqlx::query_scalar!(r#"SELECT find_suspension_of_owners($1) AS "reason: Suspension""#, org.as_str(),);
    Ok(reason.fetch_one(db).await?.map(Suspended::Owners))
}

/// The suspension of an account.
#[derive(Debug, Clone, Copy)]
pub struct AccountSuspension {
    /// The reason.
    pub reason: Suspension,
    /// Time of the suspension.
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

/// Returns the accounts that `name` is the id of, the login, or the name: one, unless a person and an organization have the same.
pub async fn named(db: impl PgExecutor<'_>, name: &str) -> Result<Vec<NamedAccount>, sqlx::Error> {
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

/// Suspends an account for `reason`, or ends its suspension when there is none. Returns what the edges have to forget: all that they
/// remember of the account's sites and AI keys.
pub async fn set_account_suspended(
    conn: &mut PgConnection,
    account: &Account,
    reason: Option<Suspension>,
    now: Timestamp,
) -> Result<Touched, sqlx::Error> {
    // Whatever the account is just making waits, and is refused, or was there before.
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
    Ok(Touched::new(account))
}

/// Returns the owner of the project called `name` that was deleted last, if it can still be restored.
pub async fn owner_of_deleted(
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

/// A site that the operator has taken down.
#[derive(Debug, Clone)]
pub struct SuspendedSite {
    /// The project's id.
    pub id: ProjectId,
    /// The project's name.
    pub project: ProjectName,
    /// The reason.
    pub reason: Suspension,
    /// Time of the suspension.
    pub suspended_at: Timestamp,
}

/// Returns the owner's suspended sites, shares included, those of the newest projects first: at most `rows`, older than
/// `before`. They are all sites of an owner that is suspended.
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

/// Suspends a site for `reason`, or resumes it when there is none; a suspended site may be given another reason. It is that
/// of the project called `name`, else the share of these words. Returns the project, and what the edges have to forget;
/// `None` when there is no such site.
pub async fn set_suspended(
    conn: &mut PgConnection,
    name: Option<&ProjectName>,
    share: Option<&ShareName>,
    reason: Option<Suspension>,
    now: Timestamp,
) -> Result<Option<(Project, Touched)>, sqlx::Error> {
    // Three words may be the name of a project as well, which has a share of the same words as its neighbour then.
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
    let touched = Touched::new(&project.id);
    Ok(Some((project, touched)))
}
