//! `/orgs/:name/invites` and `/invites`.

use domain::{EmailAddress, InviteId, OrgName, Timestamp, orgs::DisplayName, role::InviteRole};
use serde::{Deserialize, Serialize};

/// A pending invite.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invite {
    /// Its id, for revoking it.
    pub id: InviteId,
    /// Who is invited.
    pub email: EmailAddress,
    /// As what.
    pub role: InviteRole,
    /// The login of who invites; null once that account is gone.
    pub invited_by: Option<String>,
    /// When.
    pub created_at: Timestamp,
    /// Until when it can be accepted.
    pub expires_at: Timestamp,
}

/// The creation answer: the invite, and its link this once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedInvite {
    /// The invite.
    #[serde(flatten)]
    pub invite: Invite,
    /// Where it is accepted: whoever has this link can join.
    pub invite_url: String,
    /// Whether a mail server took the invitation. When false, the link has to be shared by hand.
    pub email_sent: bool,
}

/// Pending invites, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InviteList {
    /// The invites.
    pub invites: Vec<Invite>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// Invites somebody.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateInvite {
    /// Where the invitation is sent.
    pub email: EmailAddress,
    /// As what.
    #[serde(deserialize_with = "super::word")]
    pub role: InviteRole,
}

/// What the holder of an invite's link may know.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvitePreview {
    /// The organization.
    pub org: OrgName,
    /// What it is called in sentences.
    pub display_name: Option<DisplayName>,
    /// What the acceptor will be there.
    pub role: InviteRole,
    /// The login of who invites; null once that account is gone.
    pub invited_by: Option<String>,
    /// Until when it can be accepted.
    pub expires_at: Timestamp,
}
