//! `/webhooks/github` and `/webhooks/payments`.

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

/// The form that the payment provider posts: an id, of which the rest is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentHint {
    /// The provider's id of the payment.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9_]{1,64}$"))]
    pub id: String,
}
