//! States of a subscription.

use serde::{Deserialize, Serialize};

use crate::plans::Plans;

/// The state of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SubscriptionStatus {
    /// The first payment has not been made.
    Pending,
    /// The current month is paid, or its first charge is pending.
    Active,
    /// A charge has failed and is retried until the last attempt.
    PastDue,
    /// Cancelled, unpaid, or never paid in the first place.
    Ended,
}

impl SubscriptionStatus {
    /// Returns whether the account is entitled to the plan's limits.
    pub fn is_entitled(self) -> bool {
        matches!(self, Self::Active | Self::PastDue)
    }
}

/// The reason a subscription ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EndReason {
    /// The account cancelled it.
    Canceled,
    /// All attempts to charge it failed.
    Unpaid,
    /// The first payment was never made.
    NeverPaid,
    /// The first payment was never made, and the account began another subscription instead.
    Replaced,
}

/// The direction of a change from one plan to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanChange {
    /// The plans are the same.
    None,
    /// To a plan of the same or a higher price: it applies immediately, at the new price from the next month on.
    Upgrade,
    /// To a cheaper plan: it applies from the next month on.
    Downgrade,
}

impl PlanChange {
    /// Returns the direction of a change between two plans, or `None` when the configuration lacks either.
    pub fn between(plans: &Plans, from: &str, to: &str) -> Option<Self> {
        let (before, after) = (plans.find(from)?, plans.find(to)?);
        Some(match () {
            () if from == to => Self::None,
            () if after.price_cents >= before.price_cents => Self::Upgrade,
            () => Self::Downgrade,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_decides_between_upgrade_and_downgrade() {
        let plans = Plans::default();
        assert_eq!(PlanChange::between(&plans, "pro", "business"), Some(PlanChange::Upgrade));
        assert_eq!(PlanChange::between(&plans, "business", "pro"), Some(PlanChange::Downgrade));
        assert_eq!(PlanChange::between(&plans, "pro", "pro"), Some(PlanChange::None));
        assert_eq!(PlanChange::between(&plans, "pro", "gold"), None);
    }
}
