//! The organizations of a person whom the operator suspends or resumes.
//!
//! An organization with an owner who is not suspended continues to work. Any other keeps its sites, but nobody can act
//! for it, until it is suspended together with the person. Its suspension then names the person, and ends with theirs;
//! that of an organization suspended on its own names nobody, and stays.

use domain::{Account, OrgId, OrgName, Timestamp, UserId, changes::PendingChange, site::Suspension};
use sqlx::{PgConnection, PgExecutor};

use crate::quotas;

/// An organization that a person owns or has created.
#[derive(Debug, Clone)]
pub struct AffiliatedOrg {
    /// The id.
    pub id: OrgId,
    /// The name.
    pub name: OrgName,
    /// Whether the person is an owner, rather than only its creator.
    pub is_owner: bool,
    /// The number of other owners who are not suspended.
    pub other_owners: i64,
    /// Whether the operator has suspended it.
    pub is_suspended: bool,
}

/// Returns the organizations that a person owns or has created, by name.
pub async fn list_for_person(db: impl PgExecutor<'_>, person: &UserId) -> Result<Vec<AffiliatedOrg>, sqlx::Error> {
    sqlx::query_as!(
        AffiliatedOrg,
        r#"SELECT o.id, o.name,
                  EXISTS (SELECT FROM org_members m WHERE m.org_id = o.id AND m.user_id = $1 AND m.role = 'owner') AS "is_owner!",
                  (SELECT count(*) FROM org_members m LEFT JOIN account_suspensions s ON s.account = m.user_id
                   WHERE m.org_id = o.id AND m.role = 'owner' AND m.user_id <> $1 AND s.account IS NULL) AS "other_owners!",
                  EXISTS (SELECT FROM account_suspensions s WHERE s.account = o.id) AS "is_suspended!"
           FROM orgs o
           WHERE o.id IN (SELECT id FROM orgs WHERE created_by = $1
                          UNION SELECT org_id FROM org_members WHERE user_id = $1 AND role = 'owner')
           ORDER BY o.name"#,
        person.as_str(),
    )
    .fetch_all(db)
    .await
}

/// Suspends an organization with its owner. Returns what edges must forget; `None` if it was suspended, which stays
/// unchanged.
pub async fn suspend_with(
    conn: &mut PgConnection,
    person: &UserId,
    org: &OrgId,
    reason: Suspension,
    now: Timestamp,
) -> Result<Option<PendingChange>, sqlx::Error> {
    let account = Account::Org(org.clone());
    quotas::lock(&mut *conn, &account).await?;
    let suspended = sqlx::query!(
        "INSERT INTO account_suspensions (account, reason, suspended_at, suspended_with) VALUES ($1, $2, $3, $4)
         ON CONFLICT (account) DO NOTHING",
        account.as_str(),
        reason.as_str(),
        now,
        person.as_str(),
    )
    .execute(conn)
    .await?;
    Ok((suspended.rows_affected() == 1).then(|| PendingChange::new(&account)))
}

/// Returns the organizations that are suspended together with a person.
pub async fn list_suspended_with(
    db: impl PgExecutor<'_>,
    person: &UserId,
) -> Result<Vec<(OrgId, OrgName)>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT o.id, o.name FROM account_suspensions s JOIN orgs o ON o.id = s.account WHERE s.suspended_with = $1 ORDER BY o.name",
        person.as_str(),
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
}
