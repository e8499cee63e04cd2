//! `/orgs/:name/invites` and `/invites`.

use domain::{EmailAddress, InviteId, OrgName, Timestamp, orgs::DisplayName, role::InviteRole};
use serde::{Deserialize, Serialize};

/// A pending invite.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invite {
    /// The invite's id, for revoking it.
    pub id: InviteId,
    /// The email address of the person who is invited.
    pub email: EmailAddress,
    /// The role that the invited person will have.
    pub role: InviteRole,
    /// The login of the person who invites; null once that account is gone.
    pub invited_by: Option<String>,
    /// The time at which the invite was created.
    pub created_at: Timestamp,
    /// The time until which the invite can be accepted.
    pub expires_at: Timestamp,
}

/// A new invite with its link, which is shown only here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedInvite {
    /// The invite.
    #[serde(flatten)]
    pub invite: Invite,
    /// The link under which the invite is accepted. Whoever has it can join.
    pub invite_url: String,
    /// Whether a mail server took the invitation. When false, the link has to be shared by hand.
    pub email_sent: bool,
}

/// A page of an organization's pending invites, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InviteList {
    /// The invites of this page.
    pub invites: Vec<Invite>,
    /// The `cursor` of the next page; null on the last one.
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
    /// The role that the person who accepts will have.
    pub role: InviteRole,
    /// The login of the person who invites; null once that account is gone.
    pub invited_by: Option<String>,
    /// The time until which the invite can be accepted.
    pub expires_at: Timestamp,
}
