//! `/orgs` and their members.

use domain::{OrgName, Timestamp, orgs::DisplayName, role::Role};
use serde::{Deserialize, Deserializer, Serialize};

/// An organization that you belong to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Org {
    /// What it is called in addresses.
    pub name: OrgName,
    /// What it is called in sentences.
    pub display_name: Option<DisplayName>,
    /// Path of the uploaded icon, which changes with its content; null when there is none of its own.
    pub icon_url: Option<String>,
    /// What you may do there.
    pub role: Role,
    /// When it was made.
    pub created_at: Timestamp,
}

/// An organization with its members.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgDetail {
    /// The organization.
    #[serde(flatten)]
    pub org: Org,
    /// Owners, admins, the others; each by how long they have been there.
    pub members: Vec<Member>,
    /// How many projects it has.
    pub projects: u64,
}

/// Somebody who belongs to an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Member {
    /// The login at the code host.
    pub login: String,
    /// What they may do.
    pub role: Role,
    /// When they joined.
    pub joined: Timestamp,
}

/// Your organizations, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgList {
    /// The organizations.
    pub orgs: Vec<Org>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// Makes an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateOrg {
    /// Globally unique; it cannot be changed.
    pub name: OrgName,
    /// At most 100 characters; none when blank.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "blank_is_none")]
    pub display_name: Option<DisplayName>,
}

/// Changes what an organization is called in sentences.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RenameOrg {
    /// At most 100 characters; null takes it away.
    #[serde(deserialize_with = "blank_is_none")]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub display_name: Option<DisplayName>,
}

/// Changes a member's role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetRole {
    /// The new role.
    #[serde(deserialize_with = "super::word")]
    pub role: Role,
}

/// The icon was stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IconStored {
    /// Always true.
    pub ok: bool,
    /// Its path, which changes with its content.
    pub icon_url: String,
}

fn blank_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DisplayName>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    DisplayName::parse_or_blank(text.as_deref().unwrap_or_default()).map_err(serde::de::Error::custom)
}
