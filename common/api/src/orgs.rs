//! `/orgs` and their members.

use domain::{OrgName, Timestamp, orgs::DisplayName, role::Role};
use serde::{Deserialize, Deserializer, Serialize};

/// An organization that the caller belongs to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Org {
    /// The organization's name, as used in addresses.
    pub name: OrgName,
    /// The organization's display name; null when it has none.
    pub display_name: Option<DisplayName>,
    /// The path of the uploaded icon, which changes with its content; null if none was uploaded.
    pub icon_url: Option<String>,
    /// The caller's role in the organization.
    pub role: Role,
    /// The time at which the organization was created.
    pub created_at: Timestamp,
}

/// An organization with its members and the number of its projects.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgDetail {
    /// The organization.
    #[serde(flatten)]
    pub org: Org,
    /// The members, in the order in which they joined.
    pub members: Vec<Member>,
    /// The number of the organization's projects.
    pub projects: u64,
}

/// A member of an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Member {
    /// The member's login at the code host.
    pub login: String,
    /// The member's role.
    pub role: Role,
    /// The time at which the member joined.
    pub joined: Timestamp,
}

/// A page of the caller's organizations, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OrgList {
    /// The organizations of this page.
    pub orgs: Vec<Org>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The request to create an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateOrg {
    /// The name: globally unique and permanent. Once deleted, it stays reserved for its former owners for 30 days.
    pub name: OrgName,
    /// The display name: at most 100 characters; none if blank.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "blank_is_none")]
    pub display_name: Option<DisplayName>,
}

/// The request to change an organization's display name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RenameOrg {
    /// The display name: at most 100 characters; null removes it.
    #[serde(deserialize_with = "blank_is_none")]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub display_name: Option<DisplayName>,
}

/// The request to change a member's role.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetRole {
    /// The new role.
    #[serde(deserialize_with = "super::word")]
    pub role: Role,
}

/// The response when an icon was stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IconStored {
    /// Always `true`.
    pub ok: bool,
    /// The icon's path, which changes with its content.
    pub icon_url: String,
}

fn blank_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DisplayName>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    DisplayName::parse_or_blank(text.as_deref().unwrap_or_default()).map_err(serde::de::Error::custom)
}
