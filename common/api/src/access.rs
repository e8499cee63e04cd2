//! `PUT /projects/:name/access` and `/password`.

use domain::access::{AccessMode, SitePassword};
use serde::{Deserialize, Serialize};

/// A project's access mode, in its detail.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Access {
    /// Who may see the site.
    pub mode: AccessMode,
}

/// Changes the access mode.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetAccess {
    /// The new mode.
    #[serde(deserialize_with = "super::word")]
    pub mode: AccessMode,
    /// For `password` mode: the password; the stored one is kept when absent.
    #[serde(default)]
    pub password: Option<SitePassword>,
}

/// The access mode was changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessChanged {
    /// Always true.
    pub ok: bool,
    /// The mode now.
    pub mode: AccessMode,
}

/// Sets a password, and with it the `password` mode.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetPassword {
    /// 4 to 128 characters.
    pub password: SitePassword,
}
