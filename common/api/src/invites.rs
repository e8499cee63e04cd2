//! `/orgs/:name/invites` and `/invites`.

use domain::{EmailAddress, InviteId, OrgName, Timestamp, orgs::DisplayName, role::InviteRole};
use serde::{Deserialize, Serialize};

/// A pending invite.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invite {
    /// The invite's id, for revoking it.
    pub id: InviteId,
    /// The email address of the invited person.
    pub email: EmailAddress,
    /// The role that the invited person will have.
    pub role: InviteRole,
    /// The login of the person who sent the invite; null if that account was deleted.
    pub invited_by: Option<String>,
    /// The time at which the invite was created.
    pub created_at: Timestamp,
    /// When the invite expires.
    pub expires_at: Timestamp,
}

/// A new invite with its link, which is shown only here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedInvite {
    /// The invite.
    #[serde(flatten)]
    pub invite: Invite,
    /// The link for accepting the invite. Anyone who has it can join.
    pub invite_url: String,
    /// Whether a mail server accepted the invitation. If false, share the link yourself.
    pub email_sent: bool,
}

/// A page of an organization's pending invites, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InviteList {
    /// The invites of this page.
    pub invites: Vec<Invite>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The request to invite a person to an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateInvite {
    /// The email address to which the invitation is sent.
    pub email: EmailAddress,
    /// The role that the invited person will have.
    #[serde(deserialize_with = "super::word")]
    pub role: InviteRole,
}

/// An invite as the holder of its link sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvitePreview {
    /// The organization's name.
    pub org: OrgName,
    /// The organization's display name; null when it has none.
    pub display_name: Option<DisplayName>,
    /// The role that the person gets by accepting.
    pub role: InviteRole,
    /// The login of the person who sent the invite; null if that account was deleted.
    pub invited_by: Option<String>,
    /// When the invite expires.
    pub expires_at: Timestamp,
}
