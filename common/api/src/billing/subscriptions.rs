//! Subscriptions and changes to them.

use domain::{Timestamp, billing::subscription::SubscriptionStatus};
use serde::{Deserialize, Serialize};

/// The request to subscribe to a plan or to change to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChoosePlan {
    /// The plan's id, as in the catalogue.
    #[cfg_attr(feature = "openapi", schema(example = "pro"))]
    pub plan: String,
}

/// The response when a checkout was started.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkout {
    /// The payment provider's page for paying the first month. The plan applies once it is paid.
    pub checkout_url: String,
}

/// The response when a change of plan was made or scheduled.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangedPlan {
    /// Always `true`.
    pub ok: bool,
    /// The id of the chosen plan.
    pub plan: String,
    /// Whether the plan's limits apply now or from a renewal on.
    pub takes_effect: TakesEffect,
    /// The time from which the plan's limits apply.
    pub applies_at: Timestamp,
}

/// When a chosen plan's limits start to apply. Its price is always charged from the next renewal on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TakesEffect {
    /// The limits apply now: the plan costs at least as much as the previous one.
    Immediately,
    /// The limits apply from a renewal on: the plan is cheaper, or a more expensive one was left before it was paid.
    AtRenewal,
}

/// A subscription.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Subscription {
    /// The state: `pending` until the first payment is paid, `past_due` once a charge has failed.
    pub status: SubscriptionStatus,
    /// The id of the subscribed plan.
    pub plan: String,
    /// The end of the paid month, when the subscription renews, or ends if it was cancelled. Null while the first
    /// payment is pending and once the subscription has ended.
    pub renews_at: Option<Timestamp>,
    /// Whether the subscription was cancelled and will end instead of renewing.
    pub cancel_at_period_end: bool,
}
