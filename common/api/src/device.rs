//! The device-flow login.

use serde::{Deserialize, Serialize};

/// A started device flow. Field names are those of RFC 8628, section 3.2.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceStart {
    /// What the client polls with. Secret.
    pub device_code: String,
    /// What the person types.
    pub user_code: String,
    /// Where the person types it.
    pub verification_uri: String,
    /// The same with the code filled in, where the code host has such a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_uri_complete: Option<String>,
    /// Seconds until both codes expire.
    pub expires_in: u64,
    /// Seconds to wait between polls.
    pub interval: u64,
}

/// Asks whether the person has answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevicePoll {
    /// From [`DeviceStart`].
    pub device_code: String,
}

/// The person said yes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceToken {
    /// A new `cli` token; shown only here.
    pub token: String,
}
