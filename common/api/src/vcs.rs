//! `/vcs` and `/orgs/:name/installations`.

use domain::{OrgName, Timestamp};
use serde::{Deserialize, Serialize};

/// An installation of our app at the code host: what lets repositories be linked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Installation {
    /// The code host's id of it.
    pub id: i64,
    /// The login of the account it is installed on.
    pub account: String,
    /// `User` or `Organization`.
    pub account_type: String,
    /// Whether it is yours at the code host.
    pub mine: bool,
    /// The organization of yours that it is shared with; null when there is none.
    pub org: Option<OrgName>,
    /// The login of who shared it.
    pub shared_by: Option<String>,
    /// When it was installed.
    pub created_at: Timestamp,
}

/// Installations, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InstallationList {
    /// The installations.
    pub installations: Vec<Installation>,
}

/// Shares an installation with an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareInstallation {
    /// The id of one of your own: see `GET /vcs`.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub installation_id: i64,
}
