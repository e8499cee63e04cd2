//! The limits of a plan.

use api::billing::{BillingOverview, PlanUsage};
use domain::{billing::Cents, plans::PlanLimits};

use crate::output::size;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Everybody,
    Person,
    Organization,
}

pub(super) struct Limit {
    pub(super) what: &'static str,
    whose: Whose,
    pub(super) allowed: fn(&PlanLimits) -> u64,
    /// Returns the usage that counts towards the limit; `None` for a limit of a single project or request.
    used: fn(&PlanUsage, &Counted) -> Option<u64>,
    pub(super) written: fn(u64) -> String,
}

/// Usage that the overview leaves out, counted from lists.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) shares: Option<u64>,
    pub(super) members: Option<u64>,
}

pub(super) struct Meter {
    pub(super) what: &'static str,
    pub(super) used: Option<u64>,
    pub(super) allowed: u64,
    pub(super) written: fn(u64) -> String,
}

impl Limit {
    /// Returns whether the limit applies to an organization (`is_org`) or to a person.
    pub(super) fn concerns(&self, is_org: bool) -> bool {
        match self.whose {
            Whose::Everybody => true,
            Whose::Person => !is_org,
            Whose::Organization => is_org,
        }
    }
}

/// All limits except `ready_apps`, which limits nothing.
pub(super) const ALL: &[Limit] = &[
    Limit {
        what: "projects",
        whose: Whose::Everybody,
        allowed: |limits| limits.projects.into(),
        used: |usage, _| Some(usage.projects),
        written: number,
    },
    Limit {
        what: "domains",
        whose: Whose::Everybody,
        allowed: |limits| limits.domains.into(),
        used: |usage, _| Some(usage.domains),
        written: number,
    },
    Limit {
        what: "bandwidth a month",
        whose: Whose::Everybody,
        allowed: |limits| limits.bandwidth_bytes,
        used: |usage, _| Some(usage.bandwidth_bytes),
        written: size,
    },
    Limit {
        what: "AI credit a month",
        whose: Whose::Everybody,
        allowed: |limits| limits.ai_credit_cents.into(),
        used: |usage, _| Some(usage.ai_credit_cents),
        written: euros,
    },
    Limit {
        what: "storage",
        whose: Whose::Everybody,
        allowed: |limits| limits.storage_bytes,
        used: |usage, _| usage.storage_bytes,
        written: size,
    },
    Limit {
        what: "members, with invites",
        whose: Whose::Organization,
        allowed: |limits| limits.members.into(),
        used: |_, counted| counted.members,
        written: number,
    },
    Limit {
        what: "shares",
        whose: Whose::Person,
        allowed: |limits| limits.shares.into(),
        used: |_, counted| counted.shares,
        written: number,
    },
    Limit {
        what: "organizations you create",
        whose: Whose::Person,
        allowed: |limits| limits.orgs.into(),
        used: |usage, _| usage.orgs,
        written: number,
    },
    Limit {
        what: "kept deployments a project",
        whose: Whose::Everybody,
        allowed: |limits| limits.deployments.into(),
        used: |_, _| None,
        written: number,
    },
    Limit {
        what: "AI request, at most",
        whose: Whose::Everybody,
        allowed: |limits| limits.gateway_body_bytes.get(),
        used: |_, _| None,
        written: size,
    },
    Limit {
        what: "AI answer, at most",
        whose: Whose::Everybody,
        allowed: |limits| limits.gateway_max_tokens.get(),
        used: |_, _| None,
        written: tokens,
    },
];

/// Returns an account's limits and their usage: by all organizations together where they share the plan.
pub(super) fn of(overview: &BillingOverview, is_org: bool, counted: Counted) -> impl Iterator<Item = Meter> {
    let usage = overview.shared_usage.map_or(overview.usage, |shared| shared.usage);
    ALL.iter().filter(move |limit| limit.concerns(is_org)).map(move |limit| Meter {
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
