//! Roles in an organization, from least to most.

use serde::{Deserialize, Serialize};

/// What a member may do. The order is the order of power.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum Role {
    /// Works on the org's projects.
    Member,
    /// Also deletes projects, manages members and invites.
    Admin,
    /// Also changes roles and deletes the org.
    Owner,
}
