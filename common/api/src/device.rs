//! The device-flow login (RFC 8628).

use serde::{Deserialize, Serialize};

/// A started device flow. Field names are those of RFC 8628, section 3.2.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceStart {
    /// The secret that the client polls with.
    pub device_code: String,
    /// The code that the person types.
    pub user_code: String,
    /// The address of the page where the person types the code.
    pub verification_uri: String,
    /// The address of that page with the code filled in; absent if the code host has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_uri_complete: Option<String>,
    /// The number of seconds until both codes expire.
    pub expires_in: u64,
    /// The number of seconds to wait between two polls.
    pub interval: u64,
}

/// A poll for the outcome of a device flow.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevicePoll {
    /// The `device_code` of [`DeviceStart`].
    pub device_code: String,
}

/// The response to a poll once the person has approved.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceToken {
    /// The secret of a new `cli` token; shown only here.
    pub token: String,
}
