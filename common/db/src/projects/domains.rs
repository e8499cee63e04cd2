//! Custom domains: customers' own hostnames, each attached to one project.

use domain::{
    Account, Hostname, OrgId, ProjectId, Timestamp, UserId,
    addresses::HostKey,
    certificates::DomainState,
    plans::{LimitReached, Plans},
    role::Role,
};
use sqlx::{PgConnection, PgExecutor};

use super::{
    claims,
    suspension::{self, SuspendedError},
};
use crate::{
    billing::plan,
    certificates::orders::OrderStatus,
    names::{self, ReservedName},
    permits::{AtLeast, Deploy, Member, ProjectPermit},
    quotas::{self, QuotaError},
};

/// A custom domain of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomDomain {
    /// The hostname.
    pub domain: Hostname,
    /// Whether a stored, currently valid certificate covers it.
    pub tls_ready: bool,
    /// The progress of its certificate; `None` when no certificate is managed for it.
    pub status: Option<OrderStatus>,
}

impl CustomDomain {
    /// Returns whether its owner or the operator has to fix something.
    pub fn is_blocked(&self) -> bool {
        let status = self.status.as_ref();
        status.map_or(!self.tls_ready, |status| status.message.is_some() || status.state == DomainState::Blocked)
    }
}

/// Returns the project's domains, newest first. The plan bounds their number.
pub async fn list(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    now: Timestamp,
) -> Result<Vec<CustomDomain>, sqlx::Error> {
    let domains = list_for_projects(db, &[project.id.as_str()], now).await?;
    Ok(domains.into_iter().map(|(_, domain)| domain).collect())
}

pub(super) async fn list_for_projects(
    db: impl PgExecutor<'_>,
    projects: &[&str],
    now: Timestamp,
) -> Result<Vec<(ProjectId, CustomDomain)>, sqlx::Error> {
    // A wildcard covers one level of subdomains. Not `EXISTS`, for which PostgreSQL would scan all certificates until
    // the first match, which it estimates to be common.
    let rows = sqlx::query!(
        r#"SELECT d.project_id, d.domain, (
               SELECT count(*) > 0 FROM certificates c
               WHERE c.names && ARRAY[d.domain, '*' || substr(d.domain, strpos(d.domain, '.'))]
                 AND c.not_before <= $2 AND c.not_after > $2
           ) AS "tls_ready!", o.state AS "state?", o.message, o.since AS "since?", o.next_attempt_at
           FROM custom_domains d LEFT JOIN certificate_orders o ON o.domain = d.domain
           WHERE d.project_id = ANY($1) ORDER BY d.created_at DESC, d.domain"#,
        projects as &[&str],
        now,
    )
    .fetch_all(db)
    .await?;
    let domains = rows.into_iter().map(|row| {
        let begun = row.state.zip(row.since);
        let status = begun.map(|(state, since)| OrderStatus {
            state,
            message: row.message,
            since,
            next_attempt_at: row.next_attempt_at,
        });
        (row.project_id, CustomDomain { domain: row.domain, tls_ready: row.tls_ready, status })
    });
    Ok(domains.collect())
}

/// Returns whether a stored, currently valid certificate covers `domain`, like `tls_ready` of [`CustomDomain`].
pub async fn tls_ready(db: impl PgExecutor<'_>, domain: &Hostname, now: Timestamp) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT (
               SELECT count(*) > 0 FROM certificates c
               WHERE c.names && ARRAY[$1, '*' || substr($1, strpos($1, '.'))]
                 AND c.not_before <= $2 AND c.not_after > $2
           ) AS "ready!""#,
        domain.as_str(),
        now,
    )
    .fetch_one(db)
    .await
}

/// Returns whether the project has the domain.
pub async fn is_attached(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM custom_domains WHERE domain = $1 AND project_id = $2) AS "attached!""#,
        domain.as_str(),
        project.id.as_str(),
    )
    .fetch_one(db)
    .await
}

/// Returns the owner of the project that has the domain; `None` when no project has it.
pub async fn find_owner(db: impl PgExecutor<'_>, domain: &Hostname) -> Result<Option<Account>, sqlx::Error> {
    let owner = sqlx::query_scalar!(
        r#"SELECT coalesce(p.org_id, p.user_id) AS "owner!: ::domain::Account"
           FROM custom_domains d JOIN projects p ON p.id = d.project_id WHERE d.domain = $1"#,
        domain.as_str(),
    );
    owner.fetch_optional(db).await
}

/// The result of attaching a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachOutcome {
    /// The domain was attached, and the edges must learn of it.
    Now,
    /// The domain was already attached to the project, and nothing changed.
    Before,
}

/// The reason a domain was not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The project was deleted or moved meanwhile.
    #[error("the project is gone")]
    Gone,
    /// The project is behind a share, which cannot have domains.
    #[error("a share has no domains")]
    Share,
    /// Another project has the domain.
    #[error("the domain is attached to another project")]
    Taken,
    /// The domain is reserved for its former owner for a while.
    #[error("the domain is kept for its former owner")]
    Kept,
    /// The operator has suspended the project or its owner, or the claimant's own project that has the domain.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The owner's plan allows no more.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<QuotaError> for AttachError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

/// A claim to a domain that may be reserved for its former owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DomainClaimant<'a> {
    /// A person without proof. A reserved domain must have been theirs, the project owner's, or of an organization that
    /// they manage.
    Person(&'a UserId),
    /// Somebody who has proved ownership of the domain.
    Proven,
}

/// Attaches the domain to the project, if the plan of the project's owner has room.
pub async fn attach(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
    claimant: DomainClaimant<'_>,
    plans: &Plans,
    now: Timestamp,
) -> Result<AttachOutcome, AttachError> {
    let owner = lock_owner(&mut *conn, project).await?;
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    match claims::find_holder(&mut *conn, domain).await? {
        Some(held) if held.project == project.id => return Ok(AttachOutcome::Before),
        Some(_) => return Err(AttachError::Taken),
        None => {}
    }
    let allowance = plan::lock_allowance(&mut *conn, plans, &owner).await?;
    quotas::domains(&mut *conn, &owner, 1, &allowance).await?;
    let attached = sqlx::query!(
        "INSERT INTO custom_domains (domain, project_id, created_at, proven_at)
         VALUES ($1, $2, $3, CASE WHEN $4 THEN $3::timestamptz END) ON CONFLICT DO NOTHING",
        domain.as_str(),
        project.id.as_str(),
        now as Timestamp,
        claimant == DomainClaimant::Proven,
    )
    .execute(&mut *conn)
    .await?;
    // This project is locked, so only another project can have been faster.
    if attached.rows_affected() == 0 {
        return Err(AttachError::Taken);
    }
    let name = ReservedName::Domain(domain);
    match claimant {
        DomainClaimant::Proven => names::end_retirement(conn, name).await?,
        DomainClaimant::Person(person) => {
            let accounts = list_claimable_accounts(&mut *conn, &owner, person).await?;
            if !names::reclaim(conn, name, &accounts, now).await? {
                return Err(AttachError::Kept);
            }
        }
    }
    Ok(AttachOutcome::Now)
}

/// Returns the time since which a free domain is reserved for a former owner other than `person`, the organizations that
/// they manage and the project's owner.
pub async fn reserved_since(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
    person: &UserId,
    now: Timestamp,
) -> Result<Option<Timestamp>, sqlx::Error> {
    let accounts = list_claimable_accounts(&mut *conn, &project.owner, person).await?;
    names::domain_kept_since(conn, domain, &accounts, now).await
}

/// Returns the accounts whose former domains `person` may attach to a project of `owner`. They include the organizations
/// that the person manages: taking a domain out of one is like taking a project out, which other members may not. They
/// could leave with it.
async fn list_claimable_accounts(
    conn: &mut PgConnection,
    owner: &Account,
    person: &UserId,
) -> Result<Vec<String>, sqlx::Error> {
    list_accounts_of(conn, owner, person, Role::Admin).await
}

/// Returns `owner`, `person`, and the organizations in which the person has at least the role `least`.
pub(super) async fn list_accounts_of(
    conn: &mut PgConnection,
    owner: &Account,
    person: &UserId,
    least: Role,
) -> Result<Vec<String>, sqlx::Error> {
    let mut accounts = vec![owner.to_string(), person.to_string()];
    let orgs = sqlx::query!("SELECT org_id, role FROM org_members WHERE user_id = $1", person.as_str());
    let orgs = orgs.fetch_all(conn).await?.into_iter().filter(|member| member.role >= least);
    accounts.extend(orgs.map(|member| member.org_id.to_string()));
    Ok(accounts)
}

/// Locks the project, and returns the account that its domains count against.
pub(super) async fn lock_owner(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
) -> Result<Account, AttachError> {
    if project.share_name.is_some() {
        return Err(AttachError::Share);
    }
    // Read the owner again under the lock: the domain counts against the current one.
    let owner = sqlx::query!(
        "SELECT user_id, org_id FROM projects
           WHERE id = $1 AND org_id IS NOT DISTINCT FROM $2 FOR NO KEY UPDATE",
        project.id.as_str(),
        project.org_id.as_ref().map(OrgId::as_str),
    )
    .fetch_optional(conn)
    .await?;
    let owner = owner.and_then(|row| row.user_id.map(Account::User).or(row.org_id.map(Account::Org)));
    owner.ok_or(AttachError::Gone)
}

/// Returns the number of the project's domains. The caller has locked it.
pub(crate) async fn count(db: impl PgExecutor<'_>, project: &ProjectId) -> Result<u64, sqlx::Error> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM custom_domains WHERE project_id = $1"#,
        project.as_str(),
    )
    .fetch_one(db)
    .await?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// The reason a domain was not detached.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// The project does not have it, or was deleted or moved meanwhile.
    #[error("the project does not have the domain")]
    NotFound,
    /// The operator has suspended the project or its owner; the domain could otherwise be attached elsewhere.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<AttachError> for DetachError {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Suspended(suspended) => Self::Suspended(suspended),
            AttachError::Db(error) => Self::Db(error),
            AttachError::Gone | AttachError::Share | AttachError::Taken | AttachError::Kept | AttachError::Quota(_) => {
                Self::NotFound
            }
        }
    }
}

/// Detaches the domain, and reserves it for the project's owner.
pub async fn detach(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
    now: Timestamp,
) -> Result<(), DetachError> {
    let owner = lock_owner(&mut *conn, project).await?;
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    names::retire_domains(&mut *conn, &project.id, Some(domain), &owner, now).await?;
    let detached = sqlx::query!(
        "DELETE FROM custom_domains WHERE domain = $1 AND project_id = $2",
        domain.as_str(),
        project.id.as_str(),
    )
    .execute(conn)
    .await?;
    if detached.rows_affected() == 1 { Ok(()) } else { Err(DetachError::NotFound) }
}

/// Detaches all the project's domains, and returns the hosts that cease to exist.
pub(crate) async fn detach_all(conn: &mut PgConnection, project: &ProjectId) -> Result<Vec<HostKey>, sqlx::Error> {
    let domains =
        sqlx::query_scalar!("DELETE FROM custom_domains WHERE project_id = $1 RETURNING domain", project.as_str(),)
            .fetch_all(conn)
            .await?;
    Ok(domains.into_iter().map(HostKey::Domain).collect())
}
