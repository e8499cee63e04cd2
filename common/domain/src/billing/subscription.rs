//! The states of a subscription.

use serde::{Deserialize, Serialize};

use crate::plans::Plans;

/// The state of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SubscriptionStatus {
    /// Its first payment has not been paid.
    Pending,
    /// The present month is paid, or its charge is on its way for the first time.
    Active,
    /// A charge has failed; it is tried again until the last attempt.
    PastDue,
    /// It is over: cancelled, unpaid, or its first payment never came.
    Ended,
}

impl SubscriptionStatus {
    /// Returns whether the account has what the plan allows.
    pub fn is_entitled(self) -> bool {
        matches!(self, Self::Active | Self::PastDue)
    }
}

/// The reason for which a subscription is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "snake_case"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EndReason {
    /// The account cancelled it.
    Canceled,
    /// Its charges failed until the last attempt.
    Unpaid,
    /// Its first payment never came.
    NeverPaid,
    /// Its first payment never came, and the account began another in its place.
    Replaced,
}

/// The direction of a change from one plan to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanChange {
    /// The plans are the same.
    None,
    /// To a plan that costs more, or as much: it applies immediately, its price from the next month on.
    Upgrade,
    /// To a plan that costs less: it applies from the next month on.
    Downgrade,
}

impl PlanChange {
    /// Returns the direction of a change between two plans of the configuration; `None` when either is not there.
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
