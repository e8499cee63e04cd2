//! Custom domains: hostnames of people's own, each attached to one project.

use domain::{Account, Hostname, OrgId, ProjectId, Timestamp, UserId, addresses::HostKey};
use sqlx::{PgConnection, PgExecutor};

use super::claims;
use crate::{
    certificates::orders::OrderStatus,
    permits::{AtLeast, Deploy, Member, ProjectPermit},
    quotas,
};

/// A custom domain of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomDomain {
    /// The hostname.
    pub domain: Hostname,
    /// Whether a stored certificate covers it, and is valid now.
    pub tls_ready: bool,
    /// The progress of its certificate; none when nobody looks after one.
    pub status: Option<OrderStatus>,
}

/// Returns the project's domains, newest first. A plan bounds their number.
pub async fn list(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    now: Timestamp,
) -> Result<Vec<CustomDomain>, sqlx::Error> {
    // A wildcard covers its children, and not theirs.
    let rows = sqlx::query!(
        r#"SELECT d.domain, EXISTS (
               SELECT FROM certificates c
               WHERE c.names && ARRAY[d.domain, '*' || substr(d.domain, strpos(d.domain, '.'))]
                 AND c.not_before <= $2 AND c.not_after > $2
           ) AS "tls_ready!", o.state AS "state?", o.message, o.since AS "since?", o.next_attempt_at
           FROM custom_domains d LEFT JOIN certificate_orders o ON o.domain = d.domain
           WHERE d.project_id = $1 ORDER BY d.created_at DESC, d.domain"#,
        project.id.as_str(),
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
        CustomDomain { domain: row.domain, tls_ready: row.tls_ready, status }
    });
    Ok(domains.collect())
}

/// Whether a stored certificate covers `domain`, and is valid now: the `tls_ready` of [`CustomDomain`].
pub async fn tls_ready(db: impl PgExecutor<'_>, domain: &Hostname, now: Timestamp) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM certificates c
               WHERE c.names && ARRAY[$1, '*' || substr($1, strpos($1, '.'))]
                 AND c.not_before <= $2 AND c.not_after > $2
           ) AS "ready!""#,
        domain.as_str(),
        now,
    )
    .fetch_one(db)
    .await
}

/// Whether the project has the domain.
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

/// The result of attaching a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// The domain leads to the project from now on, and the edges must learn of it.
    Now,
    /// The domain led to the project already, and nothing was changed.
    Before,
}

/// Why a domain was not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The project was deleted or moved in the meantime.
    #[error("the project is gone")]
    Gone,
    /// The project is behind a share, which has no domains.
    #[error("a share has no domains")]
    Share,
    /// Another project has the domain.
    #[error("the domain is attached to another project")]
    Taken,
    /// The owner's plan allows no more.
    #[error("the owner has as many domains as the plan allows")]
    PlanLimit,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Attaches the domain to the project. Its owner may have `most` over all projects, this one included.
pub async fn attach(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
    most: u32,
    now: Timestamp,
) -> Result<Attached, AttachError> {
    let owner = lock_owner(&mut *conn, project).await?;
    match claims::holder(&mut *conn, domain).await? {
        Some(held) if held.project == project.id => return Ok(Attached::Before),
        Some(_) => return Err(AttachError::Taken),
        None => {}
    }
    if !has_room(&mut *conn, &owner, 1, most).await? {
        return Err(AttachError::PlanLimit);
    }
    let attached = sqlx::query!(
        "INSERT INTO custom_domains (domain, project_id, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        domain.as_str(),
        project.id.as_str(),
        now,
    )
    .execute(conn)
    .await?;
    // While this project is locked, only another one can have been faster.
    if attached.rows_affected() == 0 { Err(AttachError::Taken) } else { Ok(Attached::Now) }
}

/// Locks the project, and returns the account that a domain of its counts against.
pub(super) async fn lock_owner(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
) -> Result<Account, AttachError> {
    if project.share_name.is_some() {
        return Err(AttachError::Share);
    }
    // Locked, and read again: the domain counts against whoever owns the project now.
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

/// Whether `owner` may have `more` domains, `most` in all. Locks the owner until the end of the transaction, so that
/// those who ask at once come one after the other.
pub(super) async fn has_room(
    conn: &mut PgConnection,
    owner: &Account,
    more: i64,
    most: u32,
) -> Result<bool, sqlx::Error> {
    quotas::lock(conn, owner).await?;
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM custom_domains d JOIN projects p ON p.id = d.project_id
           WHERE p.user_id = $1 OR p.org_id = $2"#,
        owner.as_user().map(UserId::as_str),
        owner.as_org().map(OrgId::as_str),
    )
    .fetch_one(conn)
    .await?;
    Ok(count + more <= i64::from(most))
}

/// Whether the project's domains fit into the plan of who is to own it, which allows `most`. The project is locked.
pub(crate) async fn fit(
    conn: &mut PgConnection,
    project: &ProjectId,
    owner: &Account,
    most: u32,
) -> Result<bool, sqlx::Error> {
    let its = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM custom_domains WHERE project_id = $1"#,
        project.as_str(),
    )
    .fetch_one(&mut *conn)
    .await?;
    Ok(its == 0 || has_room(conn, owner, its, most).await?)
}

/// Detaches the domain. Returns false when the project does not have it.
pub async fn detach(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
) -> Result<bool, sqlx::Error> {
    let detached = sqlx::query!(
        "DELETE FROM custom_domains WHERE domain = $1 AND project_id = $2",
        domain.as_str(),
        project.id.as_str(),
    )
    .execute(conn)
    .await?;
    Ok(detached.rows_affected() == 1)
}

/// Detaches all the project's domains, and says which hosts cease to exist with them.
pub(crate) async fn end(conn: &mut PgConnection, project: &ProjectId) -> Result<Vec<HostKey>, sqlx::Error> {
    let domains =
        sqlx::query_scalar!("DELETE FROM custom_domains WHERE project_id = $1 RETURNING domain", project.as_str(),)
            .fetch_all(conn)
            .await?;
    Ok(domains.into_iter().map(HostKey::Domain).collect())
}
