//! `/webhooks/github`.

use serde::{Deserialize, Serialize};

/// What became of a webhook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookTaken {
    /// Always true.
    pub ok: bool,
    /// How many projects it makes deploy.
    pub deploys: u64,
}
