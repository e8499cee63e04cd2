//! Room left in a plan, and the error when there is none.

use super::{PlanLimits, Plans};
use crate::{
    limits::{DELETED_PER_STORED, DEPLOYMENTS_PER_KEPT},
    payer::Payer,
};

/// A plan limit that current usage is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Organizations created by a person.
    Orgs,
    /// Members of an organization and its pending invites.
    Members,
    /// Projects, not counting shares.
    Projects,
    /// Custom domains across all projects.
    Domains,
    /// Shares that have not expired.
    Shares,
    /// Bytes in the store.
    StoredBytes,
    /// Bytes in the store of deleted deployments, not counting projects that can be restored.
    DeletedBytes,
    /// Deployments of one project whose files are kept.
    Deployments,
}

/// The limits of an account's plan, and the plans that may allow more.
#[derive(Debug, Clone, Copy)]
pub struct PlanAllowance<'p> {
    plans: &'p Plans,
    limits: PlanLimits,
    is_shared: bool,
    lacks_payer: bool,
}

/// A plan limit that is reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plan allows {allowed} of {limit:?}")]
pub struct LimitReached {
    /// The limit.
    pub limit: LimitKind,
    /// The number or bytes that the plan allows.
    pub allowed: u64,
    /// The name of the cheapest plan with enough room; `None` when there is none.
    pub larger: Option<String>,
    /// Whether the limit is that of the free plan shared by several organizations, whose usage is counted together.
    pub is_shared: bool,
    /// Whether nothing is allowed because nobody pays for the organization.
    pub lacks_payer: bool,
}

impl LimitKind {
    /// Returns the payer under which usage of this limit is counted.
    pub const fn payer(self) -> Payer {
        match self {
            // Deleted ones still count for a while: see `quotas::orgs`.
            Self::Orgs | Self::Shares => Payer::Person,
            Self::Members => Payer::Org,
            Self::Projects | Self::Domains | Self::StoredBytes | Self::DeletedBytes | Self::Deployments => {
                Payer::Account
            }
        }
    }

    /// Returns whether one creator's organizations without a subscription share this limit.
    const fn is_counted_over_free_orgs(self) -> bool {
        matches!(self, Self::Projects | Self::Domains | Self::StoredBytes)
    }

    /// Returns the limit's value in a plan.
    pub fn value_in(self, limits: &PlanLimits) -> u64 {
        match self {
            Self::Orgs => limits.orgs.into(),
            Self::Members => limits.members.into(),
            Self::Projects => limits.projects.into(),
            Self::Domains => limits.domains.into(),
            Self::Shares => limits.shares.into(),
            Self::StoredBytes => limits.storage_bytes,
            Self::DeletedBytes => limits.storage_bytes.saturating_mul(DELETED_PER_STORED),
            Self::Deployments => u64::from(limits.deployments) * u64::from(DEPLOYMENTS_PER_KEPT),
        }
    }
}

impl<'p> PlanAllowance<'p> {
    pub(super) fn new(plans: &'p Plans, limits: PlanLimits) -> Self {
        Self { plans, limits, is_shared: false, lacks_payer: false }
    }

    /// Returns this allowance, marked as shared by several organizations or not.
    #[must_use]
    pub fn shared(self, is_shared: bool) -> Self {
        Self { is_shared, ..self }
    }

    /// Returns this allowance, of an organization that nobody pays for if `lacks_payer`: it has room for nothing new.
    #[must_use]
    pub fn without_payer(self, lacks_payer: bool) -> Self {
        Self { lacks_payer, ..self }
    }

    /// Returns the limits of the account's plan.
    pub fn limits(&self) -> &PlanLimits {
        &self.limits
    }

    /// Checks that the account may have `wanted` in total.
    pub fn check(&self, limit: LimitKind, wanted: u64) -> Result<(), LimitReached> {
        self.check_at_most(limit, wanted, limit.value_in(&self.limits))
    }

    /// Checks that the account may have `wanted` in total, where more than its plan's value is allowed.
    pub fn check_at_most(&self, limit: LimitKind, wanted: u64, allowed: u64) -> Result<(), LimitReached> {
        if wanted <= allowed && !self.lacks_payer {
            return Ok(());
        }
        let larger = self.plans.by_price().into_iter().find(|(_, plan)| limit.value_in(&plan.limits) >= wanted);
        let is_shared = self.is_shared && limit.is_counted_over_free_orgs();
        let larger = larger.map(|(_, plan)| plan.name.clone());
        Err(LimitReached { limit, allowed, larger, is_shared, lacks_payer: self.lacks_payer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_cheapest_plan_that_has_room() {
        let plans = Plans::default();
        let allowance = plans.allowance_for(None, None, None);
        assert_eq!(allowance.check(LimitKind::Projects, 100), Ok(()));
        for (wanted, larger) in [(101, Some("Pro")), (500, Some("Pro")), (501, Some("Business")), (2_501, None)] {
            let reached = allowance.check(LimitKind::Projects, wanted).unwrap_err();
            assert_eq!((reached.limit, reached.allowed, reached.larger.as_deref()), (LimitKind::Projects, 100, larger));
        }
        assert_eq!(plans.allowance_for(Some("business"), None, None).check(LimitKind::Projects, 2_500), Ok(()));
        let reached = allowance.without_payer(true).check(LimitKind::Projects, 1).unwrap_err();
        assert!(reached.lacks_payer && allowance.without_payer(false).check(LimitKind::Projects, 1).is_ok());
    }
}
