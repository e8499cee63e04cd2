//! `/vcs` and `/orgs/:name/installations`.

use domain::{OrgName, Timestamp};
use serde::{Deserialize, Serialize};

/// An installation of the service's app at the code host, through which repositories can be linked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Installation {
    /// The installation's id at the code host.
    pub id: i64,
    /// The login of the account that the app is installed on.
    pub account: String,
    /// The kind of that account: `User` or `Organization`.
    pub account_type: String,
    /// Whether the installation is the caller's own.
    pub mine: bool,
    /// The caller's organization that the installation is shared with; null if it is not shared.
    pub org: Option<OrgName>,
    /// The login of the person who shared the installation; null if it is not shared.
    pub shared_by: Option<String>,
    /// The time at which the app was installed.
    pub created_at: Timestamp,
}

/// The installations that the caller may use, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InstallationList {
    /// The installations.
    pub installations: Vec<Installation>,
}

/// The request to share an installation with an organization.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareInstallation {
    /// The id of one of the caller's own installations, as listed by `GET /vcs`.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub installation_id: i64,
}
