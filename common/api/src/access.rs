//! `PUT /projects/:name/access` and `/password`.

use domain::access::{AccessMode, SitePassword};
use serde::{Deserialize, Serialize};

/// The access mode of a project's site.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Access {
    /// The access mode.
    pub mode: AccessMode,
}

/// The request to change a project's access mode.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetAccess {
    /// The new mode.
    #[serde(deserialize_with = "super::word")]
    pub mode: AccessMode,
    /// The password for the mode `password`; when absent, the stored one is kept.
    #[serde(default)]
    pub password: Option<SitePassword>,
}

/// The response to a change of the access mode.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessChanged {
    /// Always `true`.
    pub ok: bool,
    /// The access mode now in force.
    pub mode: AccessMode,
}

/// The request to set a project's password, which also switches it to the `password` mode.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetPassword {
    /// The password: 4 to 128 characters.
    pub password: SitePassword,
}
