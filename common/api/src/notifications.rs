//! `/notifications`.

use serde::{Deserialize, Serialize};

/// The letters that a person gets by mail.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationSettings {
    /// The address of the letters, as the code host tells it; null if it tells none, so that no letters are sent.
    pub email: Option<String>,
    /// Every kind of letter.
    pub kinds: Vec<NotificationSetting>,
}

/// A kind of letter, and whether the person gets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationSetting {
    /// The kind. More may be added.
    #[cfg_attr(feature = "openapi", schema(example = "deployment_failed"))]
    pub kind: String,
    /// The topic, which continues a sentence after "letters".
    #[cfg_attr(feature = "openapi", schema(example = "about pushes that were not deployed"))]
    pub about: String,
    /// Whether letters of this kind are sent.
    pub enabled: bool,
    /// Whether they are sent whatever the person chooses: those about money and security.
    pub required: bool,
}

/// The request to turn a kind of letter on or off.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetNotification {
    /// Whether letters of this kind are sent.
    pub enabled: bool,
}
