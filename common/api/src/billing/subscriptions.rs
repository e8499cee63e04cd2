//! Subscriptions, and the changes of them.

use domain::{Timestamp, billing::subscription::SubscriptionStatus};
use serde::{Deserialize, Serialize};

/// The request to subscribe to a plan, or to change to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChoosePlan {
    /// The plan's id, as the catalogue has it.
    #[cfg_attr(feature = "openapi", schema(example = "pro"))]
    pub plan: String,
}

/// The answer when a checkout was begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkout {
    /// The page of the payment provider on which the first month is paid. The plan applies once it is.
    pub checkout_url: String,
}

/// The answer when a change of plan was made or noted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangedPlan {
    /// Always `true`.
    pub ok: bool,
    /// The id of the plan that was chosen.
    pub plan: String,
    /// Whether the plan's limits apply already.
    pub takes_effect: TakesEffect,
    /// The time from which the plan's limits apply.
    pub applies_at: Timestamp,
}

/// The moment from which a chosen plan's limits apply. Its price is always charged from the next renewal on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TakesEffect {
    /// They apply now: the plan costs more than the one before, or as much.
    Immediately,
    /// They apply with a renewal: the plan costs less than the one before, or a dearer plan was left before it was paid.
    AtRenewal,
}

/// A subscription.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Subscription {
    /// The state: `pending` until the first payment is paid, `past_due` once a charge has failed.
    pub status: SubscriptionStatus,
    /// The id of the plan that is subscribed to.
    pub plan: String,
    /// The end of the month that is paid: the subscription renews then, or ends if it was cancelled. Null while the first
    /// payment is pending, and once the subscription has ended.
    pub renews_at: Option<Timestamp>,
    /// Whether the subscription was cancelled, and ends instead of renewing.
    pub cancel_at_period_end: bool,
}
