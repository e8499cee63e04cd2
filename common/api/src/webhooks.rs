//! `/webhooks/github`.

use serde::{Deserialize, Serialize};

/// The answer to a webhook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookTaken {
    /// Always `true`.
    pub ok: bool,
    /// The number of projects that the webhook makes deploy.
    pub deploys: u64,
}
