//! `PUT /projects/:name/access` and `/password`.

use domain::access::{AccessMode, SitePassword};
use serde::{Deserialize, Serialize};

/// The visitors that a project's site is shown to.
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
    /// The password for the mode `password`; without it, the stored one is kept.
    #[serde(default)]
    pub password: Option<SitePassword>,
}

/// The answer to a change of the access mode.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessChanged {
    /// Always `true`.
    pub ok: bool,
    /// The access mode that holds now.
    pub mode: AccessMode,
}

/// The request to set a project's password, and with it the `password` mode.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetPassword {
    /// The password: 4 to 128 characters.
    pub password: SitePassword,
}
