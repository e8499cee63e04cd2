//! A person's place in an organization: the row that members, invites and permits are about.

use domain::{OrgId, OrgName, Timestamp, UserId, role::Role};
use sqlx::{PgConnection, PgExecutor};

/// Proof that a user belongs to an organization. [`membership()`] makes one.
#[derive(Debug, Clone)]
pub struct Membership {
    org: OrgId,
    name: OrgName,
    role: Role,
}

impl Membership {
    /// Returns the organization's id.
    pub fn org(&self) -> &OrgId {
        &self.org
    }

    /// Returns the organization's name.
    pub fn name(&self) -> &OrgName {
        &self.name
    }

    /// Returns the user's role there.
    pub fn role(&self) -> Role {
        self.role
    }
}

/// Returns the user's membership of the organization called `name`; `None` for outsiders and unknown names alike.
pub async fn membership(
    db: impl PgExecutor<'_>,
    user: &UserId,
    name: &OrgName,
) -> Result<Option<Membership>, sqlx::Error> {
    sqlx::query_as!(
        Membership,
        "SELECT o.id AS org, o.name, m.role
           FROM orgs o JOIN org_members m ON m.org_id = o.id WHERE o.name = $2 AND m.user_id = $1",
        user.as_str(),
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Returns the orgs that a user belongs to, with the role in each; at most `rows`.
pub async fn roles_of_user(
    db: impl PgExecutor<'_>,
    user: &UserId,
    rows: i64,
) -> Result<Vec<(OrgId, Role)>, sqlx::Error> {
    let found = sqlx::query!("SELECT org_id, role FROM org_members WHERE user_id = $1 LIMIT $2", user.as_str(), rows)
        .fetch_all(db)
        .await?;
    Ok(found.into_iter().map(|row| (row.org_id, row.role)).collect())
}

/// Adds a member. The caller holds the org's lock, or has just made the org.
pub(crate) async fn insert(
    conn: &mut PgConnection,
    org: &OrgId,
    user: &UserId,
    role: Role,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO org_members (org_id, user_id, role, joined_at) VALUES ($1, $2, $3, $4)",
        org.as_str(),
        user.as_str(),
        role as Role,
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Writes a member's role. The caller holds the org's lock, and has judged whether there remains an owner.
pub(crate) async fn write_role(
    conn: &mut PgConnection,
    org: &OrgId,
    user: &UserId,
    role: Role,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE org_members SET role = $3 WHERE org_id = $1 AND user_id = $2",
        org.as_str(),
        user.as_str(),
        role as Role,
    )
    .execute(conn)
    .await
    .map(drop)
}
