//! `/webhooks/github`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What became of a webhook.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WebhookTaken {
    /// Always true.
    pub ok: bool,
    /// How many projects it makes deploy.
    pub deploys: u64,
}
