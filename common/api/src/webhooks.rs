//! `/webhooks/github` and `/webhooks/payments`.

use serde::{Deserialize, Serialize};

/// The response to a webhook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookTaken {
    /// Always `true`.
    pub ok: bool,
    /// The number of projects that the webhook causes to deploy.
    pub deploys: u64,
}

/// The form that the payment provider posts: only an id. The payment itself is fetched from the provider.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaymentHint {
    /// The provider's id of the payment.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9_]{1,64}$"))]
    pub id: String,
}
