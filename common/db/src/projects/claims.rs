//! Domains that move to another project because somebody has proved ownership.

use domain::{Account, Hostname, ProjectId, Timestamp, UserId, plans::Plans, role::Role};
use sqlx::{PgConnection, PgExecutor, PgPool};

use super::{
    domains::{AttachError, list_accounts_of, lock_owner},
    project::{Project, select_projects},
    suspension,
};
use crate::{
    billing::plan,
    permits::{AtLeast, Member, ProjectPermit},
    quotas,
};

/// A project's claim to a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainHolder {
    /// The project.
    pub project: ProjectId,
    /// The time since which it has had the domain without interruption.
    pub since: Timestamp,
    /// Whether it has proved ownership of the domain.
    pub is_proven: bool,
}

/// Returns the project that has the domain.
pub async fn find_holder(db: impl PgExecutor<'_>, domain: &Hostname) -> Result<Option<DomainHolder>, sqlx::Error> {
    sqlx::query_as!(
        DomainHolder,
        r#"SELECT project_id AS project, created_at AS since, proven_at IS NOT NULL AS "is_proven!"
           FROM custom_domains WHERE domain = $1"#,
        domain.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// A domain of another account under the same registered domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourDomain {
    /// The hostname.
    pub domain: Hostname,
    /// The project that has it.
    pub project: ProjectId,
    /// The time since which it has had the domain without interruption.
    pub since: Timestamp,
}

/// Returns at most `limit` domains of others that are `registered` or under it: their payers do not pay for this
/// project, and `person` belongs to none of their accounts. Those with a certificate come first, then the oldest.
pub async fn list_neighbours(
    db: &PgPool,
    project: &ProjectPermit<impl AtLeast<Member>>,
    person: &UserId,
    registered: &str,
    limit: i64,
) -> Result<Vec<NeighbourDomain>, sqlx::Error> {
    let accounts = list_accounts_of(&mut *db.acquire().await?, &project.owner, person, Role::Member).await?;
    let payer = project.payer();
    // Reversed names of subdomains begin with that of the domain and a dot: a range that ends at the next character.
    let backwards: String = registered.chars().rev().collect();
    sqlx::query_as!(
        NeighbourDomain,
        "SELECT d.domain, d.project_id AS project, d.created_at AS since
         FROM custom_domains d
              JOIN projects p ON p.id = d.project_id
              LEFT JOIN orgs g ON g.id = p.org_id
              LEFT JOIN certificate_orders o ON o.domain = d.domain
         WHERE (reverse(d.domain) = $1 OR (reverse(d.domain) > $1 || '.' AND reverse(d.domain) < $1 || '/'))
           AND coalesce(p.user_id, g.created_by, p.org_id) <> $2 AND coalesce(p.org_id, p.user_id) <> ALL($3)
         ORDER BY o.certificate_id IS NULL, d.created_at, d.domain LIMIT $4",
        backwards,
        payer.person_or_account(),
        &accounts,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Moves the domain from its holder to this project for `person`, who proved ownership, if the owner's plan has room.
/// Returns the former holder. Fails with [`AttachError::Taken`] when it no longer has the domain.
pub async fn take_over(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    domain: &Hostname,
    (from, person): (&DomainHolder, &UserId),
    plans: &Plans,
    now: Timestamp,
) -> Result<Project, AttachError> {
    let owner = lock_owner(&mut *conn, project).await?;
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    let former = select_projects!("WHERE p.id = $1", from.project.as_str()).fetch_optional(&mut *conn).await?;
    let former = former.ok_or(AttachError::Taken)?;
    // Others with proof may take the domain from a suspended project, perhaps without right to it; its own people may
    // not.
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &former.id).await?
        && (former.owner == owner || is_own_or_member(&mut *conn, person, &former.owner).await?)
    {
        return Err(suspended.into());
    }
    let allowance = plan::lock_allowance(&mut *conn, plans, &owner).await?;
    if former.owner != owner {
        quotas::domains(&mut *conn, &owner, 1, &allowance).await?;
    }
    let moved = sqlx::query!(
        "UPDATE custom_domains SET project_id = $1, created_at = $4, proven_at = $4
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

async fn is_own_or_member(conn: &mut PgConnection, person: &UserId, account: &Account) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT $1 = $2 OR EXISTS (SELECT FROM org_members WHERE user_id = $1 AND org_id = $2) AS "is_of!""#,
        person.as_str(),
        account.as_str(),
    )
    .fetch_one(conn)
    .await
}
