//! Domains that change hands because somebody has proved that they are theirs.

use domain::{EmailAddress, Hostname, ProjectId, Timestamp, role::Role};
use sqlx::{PgConnection, PgExecutor};

use super::{
    domains::{AttachError, has_room, lock_owner},
    project::{Project, select_projects},
};
use crate::permits::{AtLeast, Member, ProjectPermit};

/// People of one account that are told of a loss.
const TOLD: i64 = 10;

/// A project's hold of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The project.
    pub project: ProjectId,
    /// The time from which on it has had the domain without a break.
    pub since: Timestamp,
}

/// Returns who has the domain.
pub async fn holder(db: impl PgExecutor<'_>, domain: &Hostname) -> Result<Option<Held>, sqlx::Error> {
    sqlx::query_as!(
        Held,
        "SELECT project_id AS project, created_at AS since FROM custom_domains WHERE domain = $1",
        domain.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Moves the domain from its holder to this project, whose owner may have `most` over all projects, and returns
/// the project that had it. Fails with [`AttachError::Taken`] when that one has it no more.
pub async fn take_over(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
    from: &Held,
    most: u32,
    now: Timestamp,
) -> Result<Project, AttachError> {
    let owner = lock_owner(&mut *conn, project).await?;
    let former = select_projects!("WHERE p.id = $1", from.project.as_str()).fetch_optional(&mut *conn).await?;
    let former = former.ok_or(AttachError::Taken)?;
    let more = i64::from(former.owner != owner);
    if !has_room(&mut *conn, &owner, more, most).await? {
        return Err(AttachError::PlanLimit);
    }
    let moved = sqlx::query!(
        "UPDATE custom_domains SET project_id = $1, created_at = $4
         WHERE domain = $2 AND project_id = $3 AND created_at = $5",
        project.id.as_str(),
        domain.as_str(),
        from.project.as_str(),
        now,
        from.since,
    )
    .execute(conn)
    .await?;
    if moved.rows_affected() == 0 { Err(AttachError::Taken) } else { Ok(former) }
}

/// Returns the mail addresses of those who own the project: its person's, or those of its org's owners.
pub async fn owners_addresses(db: impl PgExecutor<'_>, project: &Project) -> Result<Vec<EmailAddress>, sqlx::Error> {
    let addresses: Vec<String> = sqlx::query_scalar!(
        r#"SELECT u.email AS "email!: String" FROM users u
           WHERE u.email IS NOT NULL
             AND (u.id = $1 OR EXISTS (
                 SELECT FROM org_members m WHERE m.user_id = u.id AND m.org_id = $2 AND m.role = $3
             ))
           ORDER BY u.id LIMIT $4"#,
        project.owner.as_user().map(domain::UserId::as_str),
        project.owner.as_org().map(domain::OrgId::as_str),
        Role::Owner.as_str(),
        TOLD,
    )
    .fetch_all(db)
    .await?;
    // What the code host said may be no address.
    Ok(addresses.iter().filter_map(|address| address.parse().ok()).collect())
}
