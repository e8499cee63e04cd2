//! Plans: what an account may use, and what it pays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Account, usage::Microcents};

/// The plans of the configuration, by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Plans(BTreeMap<String, Plan>);

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name for people.
    pub name: String,
    /// A month's price, in euro cents without VAT.
    pub price_cents: u32,
    /// Its limits.
    pub limits: PlanLimits,
}

/// The limits of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanLimits {
    /// Organizations that one person may create. They have plans of their own.
    #[serde(default = "orgs_when_absent")]
    pub orgs: u32,
    /// Projects, shares not counted.
    pub projects: u32,
    /// Custom domains, over all projects.
    pub domains: u32,
    /// Server apps that are kept ready.
    pub ready_apps: u32,
    /// Bytes served in a month.
    pub bandwidth_bytes: u64,
    /// Most that the AI gateway may cost in a month, in euro cents.
    pub ai_credit_cents: u32,
}

/// A configuration written before this limit knew nothing of it.
fn orgs_when_absent() -> u32 {
    100
}

impl Plans {
    /// Returns the plan with this id.
    pub fn find(&self, id: &str) -> Option<&Plan> {
        self.0.get(id)
    }

    /// Returns all plans, the cheapest first.
    pub fn by_price(&self) -> Vec<(&str, &Plan)> {
        let mut plans: Vec<_> = self.0.iter().map(|(id, plan)| (id.as_str(), plan)).collect();
        plans.sort_by_key(|(id, plan)| (plan.price_cents, *id));
        plans
    }

    /// Returns the plan of `account`; `None` when the configuration has no plans. Accounts cannot subscribe to a plan
    /// yet, so it is the cheapest for each of them.
    pub fn plan_of(&self, _account: &Account) -> Option<&Plan> {
        self.default_plan().map(|(_, plan)| plan)
    }

    /// Returns the plan of an account without a subscription: the cheapest.
    pub fn default_plan(&self) -> Option<(&str, &Plan)> {
        self.by_price().into_iter().next()
    }
}

impl PlanLimits {
    /// Returns the credit in the unit that usage is counted in.
    pub fn ai_credit(&self) -> Microcents {
        Microcents::from_cents(self.ai_credit_cents)
    }
}

/// The plans that are shipped: `billing.plans` replaces them whole.
impl Default for Plans {
    fn default() -> Self {
        const GB: u64 = 1_000_000_000;
        let plan = |id: &str, name: &str, price_cents, limits| {
            (id.to_owned(), Plan { name: name.to_owned(), price_cents, limits })
        };
        let limits = |orgs, projects, domains, ready_apps, gigabytes, ai_credit_cents| PlanLimits {
            orgs,
            projects,
            domains,
            ready_apps,
            bandwidth_bytes: gigabytes * GB,
            ai_credit_cents,
        };
        Self(BTreeMap::from([
            plan("free", "Free", 0, limits(100, 100, 50, 0, 100, 1_000)),
            plan("pro", "Pro", 2_000, limits(500, 500, 250, 3, 1_000, 3_000)),
            plan("business", "Business", 10_000, limits(2_500, 2_500, 1_000, 10, 5_000, 15_000)),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_pays_for_nothing_is_on_the_cheapest_plan() {
        let plans = Plans::default();
        assert_eq!(plans.default_plan().unwrap().0, "free");
        let order: Vec<_> = plans.by_price().into_iter().map(|(id, _)| id).collect();
        assert_eq!(order, ["free", "pro", "business"]);
        assert_eq!(plans.find("free").unwrap().limits.ai_credit(), Microcents(1_000_000_000));
    }
}
