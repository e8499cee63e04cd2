//! A person's membership of an organization: the row behind members, invites and permits.

use domain::{OrgId, OrgName, Timestamp, UserId, role::Role};
use sqlx::{PgConnection, PgExecutor};

/// Proof that a user is a member of an organization. Created by [`membership()`].
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

/// Returns the user's membership of the organization called `name`; `None` for non-members and unknown names alike.
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

/// Returns at most `rows` of a user's orgs, with the role in each.
pub async fn list_roles_for_user(
    db: impl PgExecutor<'_>,
    user: &UserId,
    rows: i64,
) -> Result<Vec<(OrgId, Role)>, sqlx::Error> {
    let found = sqlx::query!("SELECT org_id, role FROM org_members WHERE user_id = $1 LIMIT $2", user.as_str(), rows)
        .fetch_all(db)
        .await?;
    Ok(found.into_iter().map(|row| (row.org_id, row.role)).collect())
}

/// Adds a member. The caller holds the org's lock, or has just created the org.
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

/// Updates a member's role. The caller holds the org's lock, and has checked that an owner remains.
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
