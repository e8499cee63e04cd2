//! Plans: the limits of an account, and its price.
//!
//! An account is on the plan of its subscription, or else on the cheapest. [`PlanAllowance`] checks usage against a plan.

mod allowance;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    gateway::{BodyLimit, TokenLimit},
    limits::GB,
    usage::Microcents,
};

pub use self::allowance::{LimitKind, LimitReached, PlanAllowance};

/// The configured plans, by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Plans(BTreeMap<String, Plan>);

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The display name.
    pub name: String,
    /// The monthly price, in euro cents without VAT.
    pub price_cents: u32,
    /// The limits.
    pub limits: PlanLimits,
}

/// The limits of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanLimits {
    /// Organizations that one person may create. Each has its own plan; unsubscribed ones share one free plan, apart
    /// from the person's.
    #[serde(default = "free::orgs")]
    pub orgs: u32,
    /// Seats of an organization: its members and pending invites.
    #[serde(default = "free::members")]
    pub members: u32,
    /// Projects, not counting shares.
    pub projects: u32,
    /// Custom domains across all projects.
    pub domains: u32,
    /// Server apps that are kept ready. It limits nothing, because svc runs no server apps: sites are files.
    pub ready_apps: u32,
    /// Bytes sent to people in a month. Beyond them sites are served at a limited rate.
    pub bandwidth_bytes: u64,
    /// Maximum cost of the AI gateway in a month, in euro cents.
    pub ai_credit_cents: u32,
    /// Bytes in the store across all deployments and shares, with compressed variants. Each counts with its size on
    /// disk, 12 KB at least.
    #[serde(default = "free::storage_bytes")]
    pub storage_bytes: u64,
    /// Deployments that a project keeps. Older ones expire, except the live one and those of the last 30 days; at ten
    /// times this number the project cannot publish until some are deleted or expire.
    #[serde(default = "free::deployments")]
    pub deployments: u32,
    /// Shares that have not expired.
    #[serde(default = "free::shares")]
    pub shares: u32,
    /// Bytes of a request to the AI gateway, once decompressed. A key may have a lower limit.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = u32, minimum = 1024, maximum = 33_554_432))]
    pub gateway_body_bytes: BodyLimit,
    /// Maximum `max_tokens` of an AI gateway request, if the model can write that much. A key may have a lower limit.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = u32, minimum = 1, maximum = 1_000_000))]
    pub gateway_max_tokens: TokenLimit,
}

/// Values of the shipped free plan, for limits that an older configuration lacks.
mod free {
    pub(super) const fn orgs() -> u32 {
        3
    }

    pub(super) const fn members() -> u32 {
        25
    }

    pub(super) const fn storage_bytes() -> u64 {
        5 * super::GB
    }

    pub(super) const fn deployments() -> u32 {
        20
    }

    pub(super) const fn shares() -> u32 {
        50
    }
}

impl Plans {
    /// Returns the plan with this id.
    pub fn find(&self, id: &str) -> Option<&Plan> {
        self.0.get(id)
    }

    /// Returns all plans, cheapest first.
    pub fn by_price(&self) -> Vec<(&str, &Plan)> {
        let mut plans: Vec<_> = self.0.iter().map(|(id, plan)| (id.as_str(), plan)).collect();
        plans.sort_by_key(|(id, plan)| (plan.price_cents, *id));
        plans
    }

    /// Returns the plan of an account that is subscribed to `subscribed`, or to nothing; `None` if there are no plans.
    ///
    /// A subscription to a plan that was removed from the configuration gets the limits of the most expensive one:
    /// editing a file must not take away what somebody pays for. Prices never come from here: see [`Plans::find`].
    pub fn plan_for(&self, subscribed: Option<&str>) -> Option<(&str, &Plan)> {
        let Some(id) = subscribed else { return self.default_plan() };
        self.0.get_key_value(id).map(|(id, plan)| (id.as_str(), plan)).or_else(|| self.by_price().pop())
    }

    /// Returns the limits of [`Plans::plan_for`], or [`PlanLimits::NOTHING`] when the configuration has no plans.
    pub fn limits_for(&self, subscribed: Option<&str>) -> PlanLimits {
        self.plan_for(subscribed).map_or(PlanLimits::NOTHING, |(_, plan)| plan.limits)
    }

    /// Returns [`Plans::limits_for`], with AI credit and organizations capped by the plan `charged` for this month if
    /// that is cheaper because of a later upgrade. A plan that was removed from the configuration is not compared.
    pub fn paid_limits_for(&self, subscribed: Option<&str>, charged: Option<&str>) -> PlanLimits {
        let limits = self.limits_for(subscribed);
        let plans = subscribed.and_then(|id| self.find(id)).zip(charged.and_then(|id| self.find(id)));
        match plans {
            Some((plan, charged)) if charged.price_cents < plan.price_cents => {
                let ai_credit_cents = limits.ai_credit_cents.min(charged.limits.ai_credit_cents);
                PlanLimits { ai_credit_cents, orgs: limits.orgs.min(charged.limits.orgs), ..limits }
            }
            _ => limits,
        }
    }

    /// Returns the allowance of an account that is subscribed to `subscribed`, or to nothing, was charged for the plan
    /// `charged` this month, and moves to the plan `next`, if any, next month.
    pub fn allowance_for(
        &self,
        subscribed: Option<&str>,
        charged: Option<&str>,
        next: Option<&str>,
    ) -> PlanAllowance<'_> {
        let limits = self.paid_limits_for(subscribed, charged);
        let next = next.and_then(|next| self.find(next));
        PlanAllowance::new(self, next.map_or(limits, |next| limits.with_room_in(&next.limits)))
    }

    /// Returns the smallest number of deployments that any plan keeps per project.
    pub fn min_deployments(&self) -> u32 {
        self.0.values().map(|plan| plan.limits.deployments).min().unwrap_or_default()
    }

    /// Returns the most deployments that any of the plans `ids` keeps per project; `None` if none is configured.
    pub fn max_deployments<'p>(&self, ids: impl IntoIterator<Item = &'p str>) -> Option<u32> {
        ids.into_iter().filter_map(|id| self.find(id)).map(|plan| plan.limits.deployments).max()
    }

    /// Returns the plan of accounts without a subscription: the cheapest.
    pub fn default_plan(&self) -> Option<(&str, &Plan)> {
        self.by_price().into_iter().next()
    }
}

impl PlanLimits {
    /// The limits of an account without a plan.
    const NOTHING: Self = Self {
        orgs: 0,
        members: 0,
        projects: 0,
        domains: 0,
        ready_apps: 0,
        bandwidth_bytes: 0,
        ai_credit_cents: 0,
        storage_bytes: 0,
        deployments: 0,
        shares: 0,
        gateway_body_bytes: BodyLimit::DEFAULT,
        gateway_max_tokens: TokenLimit::DEFAULT,
    };

    /// Returns these limits, lowered to those of `other`, except for monthly usage and kept deployments.
    #[must_use]
    fn with_room_in(self, other: &Self) -> Self {
        Self {
            orgs: self.orgs.min(other.orgs),
            members: self.members.min(other.members),
            projects: self.projects.min(other.projects),
            domains: self.domains.min(other.domains),
            shares: self.shares.min(other.shares),
            storage_bytes: self.storage_bytes.min(other.storage_bytes),
            ..self
        }
    }

    /// Returns the AI credit in the unit of usage.
    pub fn ai_credit(&self) -> Microcents {
        Microcents::from_cents(self.ai_credit_cents)
    }
}

/// The shipped plans, which `billing.plans` replaces as a whole.
impl Default for Plans {
    fn default() -> Self {
        let plan = |id: &str, name: &str, price_cents, limits| {
            (id.to_owned(), Plan { name: name.to_owned(), price_cents, limits })
        };
        let free = PlanLimits {
            orgs: free::orgs(),
            members: free::members(),
            projects: 100,
            domains: 50,
            ready_apps: 0,
            bandwidth_bytes: 100 * GB,
            ai_credit_cents: 100,
            storage_bytes: free::storage_bytes(),
            deployments: free::deployments(),
            shares: free::shares(),
            gateway_body_bytes: BodyLimit::DEFAULT,
            gateway_max_tokens: TokenLimit::DEFAULT,
        };
        let pro = PlanLimits {
            orgs: 500,
            members: 100,
            projects: 500,
            domains: 250,
            ready_apps: 3,
            bandwidth_bytes: 1_000 * GB,
            ai_credit_cents: 3_000,
            storage_bytes: 100 * GB,
            deployments: 100,
            shares: 500,
            gateway_body_bytes: BodyLimit::EIGHT_MB,
            gateway_max_tokens: TokenLimit::LONG,
        };
        let business = PlanLimits {
            orgs: 2_500,
            members: 1_000,
            projects: 2_500,
            domains: 1_000,
            ready_apps: 10,
            bandwidth_bytes: 5_000 * GB,
            ai_credit_cents: 15_000,
            storage_bytes: 1_000 * GB,
            deployments: 500,
            shares: 2_500,
            gateway_body_bytes: BodyLimit::LARGEST,
            gateway_max_tokens: TokenLimit::LONGEST,
        };
        Self(BTreeMap::from([
            plan("free", "Free", 0, free),
            plan("pro", "Pro", 2_000, pro),
            plan("business", "Business", 10_000, business),
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
        assert_eq!(plans.find("free").unwrap().limits.ai_credit(), Microcents(100_000_000));
    }

    #[test]
    fn a_plan_written_before_the_later_limits_has_those_of_the_free_one() {
        let plan = r#"{"old": {"name": "Old", "price_cents": 0, "limits": {"projects": 1, "domains": 1,
            "ready_apps": 0, "bandwidth_bytes": 1, "ai_credit_cents": 1}}}"#;
        let plans: Plans = serde_json::from_str(plan).unwrap();
        let (old, free) = (plans.find("old").unwrap().limits, Plans::default().find("free").unwrap().limits);
        assert_eq!(
            (old.orgs, old.members, old.storage_bytes, old.deployments, old.shares, old.gateway_body_bytes),
            (free.orgs, free.members, free.storage_bytes, free.deployments, free.shares, free.gateway_body_bytes)
        );
        assert_eq!(old.gateway_max_tokens.get(), 4_096);
        let large = plan.replace("\"ai_credit_cents\": 1", "\"ai_credit_cents\": 1, \"gateway_body_bytes\": 33554433");
        let error = serde_json::from_str::<Plans>(&large).unwrap_err().to_string();
        assert!(error.contains("from 1024 to 33554432"), "{error}");
    }

    #[test]
    fn credit_and_organizations_follow_what_was_paid() {
        let plans = Plans::default();
        let credit = |plan, charged| plans.paid_limits_for(Some(plan), charged).ai_credit_cents;
        assert_eq!((credit("business", Some("pro")), credit("business", Some("business"))), (3_000, 15_000));
        // Nothing was charged, the plan is cheaper than the charged one, or one of them was removed.
        assert_eq!((credit("business", None), credit("pro", Some("business"))), (15_000, 3_000));
        assert_eq!((credit("business", Some("gone")), credit("gone", Some("pro"))), (15_000, 15_000));
        assert_eq!(plans.paid_limits_for(None, None), plans.limits_for(None));
        let upgraded = plans.paid_limits_for(Some("business"), Some("pro"));
        assert_eq!(upgraded.orgs, 500);
        assert_eq!(
            PlanLimits { ai_credit_cents: 15_000, orgs: 2_500, ..upgraded },
            plans.limits_for(Some("business")),
            "credit and organizations alone"
        );
    }

    #[test]
    fn a_subscription_has_its_plan_and_a_retired_one_the_dearest() {
        let plans = Plans::default();
        let id = |subscribed| plans.plan_for(subscribed).unwrap().0;
        assert_eq!((id(None), id(Some("pro")), id(Some("pro-2025"))), ("free", "pro", "business"));
        let none = Plans(BTreeMap::new());
        assert_eq!((none.plan_for(Some("pro")), none.limits_for(None)), (None, PlanLimits::NOTHING));
    }
}
