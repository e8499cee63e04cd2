//! Organizations: who belongs to them.

use sqlx::PgExecutor;

use crate::domain::{OrgId, OrgName, UserId, role::Role};

/// A user's place in an organization. Only [`membership`] makes one: holding it is belonging.
#[derive(Debug, Clone)]
pub struct Membership {
    org: OrgId,
    name: OrgName,
    role: Role,
}

impl Membership {
    /// The organization.
    pub fn org(&self) -> &OrgId {
        &self.org
    }

    /// Its name.
    pub fn name(&self) -> &OrgName {
        &self.name
    }

    /// What the user may do there.
    pub fn role(&self) -> Role {
        self.role
    }
}

/// The user's membership of the organization called `name`; none for outsiders and unknown names alike.
pub async fn membership(
    db: impl PgExecutor<'_>,
    user: &UserId,
    name: &OrgName,
) -> Result<Option<Membership>, sqlx::Error> {
    sqlx::query_as!(
        Membership,
        r#"SELECT o.id AS "org: OrgId", o.name AS "name: OrgName", m.role AS "role: Role"
           FROM orgs o JOIN org_members m ON m.org_id = o.id WHERE o.name = $2 AND m.user_id = $1"#,
        user.as_str(),
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}
