//! The limits of a plan.

use api::billing::{BillingOverview, PlanUsage};
use domain::{billing::Cents, plans::PlanLimits};

use crate::output::size;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitScope {
    Everybody,
    Person,
    Organization,
}

pub(super) struct PlanLimit {
    pub(super) what: &'static str,
    whose: LimitScope,
    pub(super) allowed: fn(&PlanLimits) -> u64,
    /// Returns the usage that counts towards the limit; `None` for a limit of a single project or request.
    used: fn(&PlanUsage, &ResourceCounts) -> Option<u64>,
    pub(super) written: fn(u64) -> String,
}

/// Usage that the overview leaves out, counted from lists.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ResourceCounts {
    pub(super) shares: Option<u64>,
    pub(super) members: Option<u64>,
}

pub(super) struct LimitUsage {
    pub(super) what: &'static str,
    pub(super) used: Option<u64>,
    pub(super) allowed: u64,
    pub(super) written: fn(u64) -> String,
}

impl PlanLimit {
    /// Returns whether the limit applies to an organization (`is_org`) or to a person.
    pub(super) fn is_for(&self, is_org: bool) -> bool {
        match self.whose {
            LimitScope::Everybody => true,
            LimitScope::Person => !is_org,
            LimitScope::Organization => is_org,
        }
    }
}

/// All limits except `ready_apps`, which limits nothing.
pub(super) const ALL: &[PlanLimit] = &[
    PlanLimit {
        what: "projects",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.projects.into(),
        used: |usage, _| Some(usage.projects),
        written: number,
    },
    PlanLimit {
        what: "domains",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.domains.into(),
        used: |usage, _| Some(usage.domains),
        written: number,
    },
    PlanLimit {
        what: "bandwidth a month",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.bandwidth_bytes,
        used: |usage, _| Some(usage.bandwidth_bytes),
        written: size,
    },
    PlanLimit {
        what: "AI credit a month",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.ai_credit_cents.into(),
        used: |usage, _| Some(usage.ai_credit_cents),
        written: euros,
    },
    PlanLimit {
        what: "storage",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.storage_bytes,
        used: |usage, _| usage.storage_bytes,
        written: size,
    },
    PlanLimit {
        what: "members, with invites",
        whose: LimitScope::Organization,
        allowed: |limits| limits.members.into(),
        used: |_, counted| counted.members,
        written: number,
    },
    PlanLimit {
        what: "shares",
        whose: LimitScope::Person,
        allowed: |limits| limits.shares.into(),
        used: |_, counted| counted.shares,
        written: number,
    },
    PlanLimit {
        what: "organizations you create",
        whose: LimitScope::Person,
        allowed: |limits| limits.orgs.into(),
        used: |usage, _| usage.orgs,
        written: number,
    },
    PlanLimit {
        what: "kept deployments a project",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.deployments.into(),
        used: |_, _| None,
        written: number,
    },
    PlanLimit {
        what: "AI request, at most",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.gateway_body_bytes.get(),
        used: |_, _| None,
        written: size,
    },
    PlanLimit {
        what: "AI answer, at most",
        whose: LimitScope::Everybody,
        allowed: |limits| limits.gateway_max_tokens.get(),
        used: |_, _| None,
        written: tokens,
    },
];

/// Returns an account's limits and their usage: by all organizations together where they share the plan.
pub(super) fn usage_by_limit(
    overview: &BillingOverview,
    is_org: bool,
    counted: ResourceCounts,
) -> impl Iterator<Item = LimitUsage> {
    let usage = overview.shared_usage.map_or(overview.usage, |shared| shared.usage);
    ALL.iter().filter(move |limit| limit.is_for(is_org)).map(move |limit| LimitUsage {
        what: limit.what,
        used: (limit.used)(&usage, &counted),
        allowed: (limit.allowed)(&overview.limits),
        written: limit.written,
    })
}

fn number(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

fn tokens(tokens: u64) -> String {
    crate::output::count(tokens, "token")
}

fn euros(cents: u64) -> String {
    Cents(i64::try_from(cents).unwrap_or(i64::MAX)).to_string()
}
