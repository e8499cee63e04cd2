//! Roles in an organization, lowest to highest.

use serde::{Deserialize, Serialize};

/// A member's role. Ordered by power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Role {
    /// Works on the org's projects.
    Member,
    /// Also deletes projects, manages members and invites.
    Admin,
    /// Also changes roles and deletes the org.
    Owner,
}

impl Role {
    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    /// Returns whether a member with this role may remove another with the role `other`. All members may leave.
    pub fn may_remove(self, other: Self) -> bool {
        match other {
            Self::Owner => self == Self::Owner,
            Self::Admin | Self::Member => self >= Self::Admin,
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The roles that an invite may grant. Only an owner can make a member an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum InviteRole {
    /// A member.
    Member,
    /// An admin.
    Admin,
}

impl From<InviteRole> for Role {
    fn from(role: InviteRole) -> Self {
        match role {
            InviteRole::Member => Self::Member,
            InviteRole::Admin => Self::Admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Role::{Admin, Member, Owner};

    #[test]
    fn owners_are_removed_by_owners_and_the_others_by_admins() {
        let table = [(Member, [false; 3]), (Admin, [true, true, false]), (Owner, [true; 3])];
        for (actor, allowed) in table {
            for (other, allowed) in [Member, Admin, Owner].into_iter().zip(allowed) {
                assert_eq!(actor.may_remove(other), allowed, "{actor} removes {other}");
            }
        }
    }
}
