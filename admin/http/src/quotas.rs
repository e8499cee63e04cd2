//! Messages for reached plan limits.

use db::quotas::QuotaError;
use domain::{
    plans::{LimitKind, LimitReached},
    size,
};

use crate::error::{ApiError, Code};

/// The organizations over which a limit of the free plan is counted.
const SHARED: &str = " over all organizations without a subscription that the payer of this one pays for";

const LACKS_PAYER: &str = "Nobody pays for this organization since the owner who did has left, so that nothing new can be made in it; an owner \
                           has to take it over first (`svc orgs take-over`, or POST /orgs/{name}/payer), or to buy a plan for it.";

/// Returns a sentence with the limit, its value, how to make room, and which plan has more.
pub fn quota_message(reached: &LimitReached) -> String {
    if reached.lacks_payer {
        return LACKS_PAYER.to_owned();
    }
    let allowed = reached.allowed;
    let (what, remedy) = match reached.limit {
        LimitKind::Orgs => (
            counted(allowed, "organization"),
            "delete one that is no longer needed, or, after an upgrade, wait until its first month is paid",
        ),
        LimitKind::Members => {
            (format!("{} with pending invites", counted(allowed, "member")), "remove a member or revoke an invite")
        }
        LimitKind::Projects => (counted(allowed, "project"), "delete one that is no longer needed"),
        LimitKind::Domains => (counted(allowed, "custom domain"), "detach one that is no longer needed"),
        LimitKind::Shares => (counted(allowed, "live share"), "delete one, or wait until one expires"),
        LimitKind::StoredBytes => {
            (format!("{} of stored files", size(allowed)), "delete old deployments, shares or projects")
        }
        LimitKind::DeletedBytes => (
            format!("{} of deleted files that wait for their removal", size(allowed)),
            "wait some minutes until they are removed",
        ),
        LimitKind::Deployments => (
            format!("{} of a project to be kept", counted(allowed, "deployment")),
            "delete old ones of this project, or wait until some expire",
        ),
    };
    // The organizations of one creator: see `quotas`.
    let over = if reached.is_shared { SHARED } else { "" };
    match &reached.larger {
        Some(plan) => {
            let (plan, whose) = (plan.as_str(), if reached.is_shared { " for this organization" } else { "" });
            format!("The plan allows {what}{over}, and this would be more; {remedy}, or choose the {plan} plan{whose}.")
        }
        None => format!("The plan allows {what}{over}, and this would be more; {remedy}. No plan has room for it."),
    }
}

fn counted(most: u64, noun: &str) -> String {
    format!("{most} {noun}{}", if most == 1 { "" } else { "s" })
}

impl From<LimitReached> for ApiError {
    fn from(reached: LimitReached) -> Self {
        Self::new(Code::PlanLimitReached, quota_message(&reached))
    }
}

impl From<QuotaError> for ApiError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => reached.into(),
            QuotaError::Db(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::limits::GB;

    use super::*;

    #[test]
    fn sentences_name_the_limit_and_the_way_out() {
        for (limit, allowed, wanted) in [
            (LimitKind::Orgs, 3, "The plan allows 3 organizations, and"),
            (LimitKind::Members, 25, "The plan allows 25 members with pending invites, and"),
            (LimitKind::Projects, 100, "The plan allows 100 projects, and"),
            (LimitKind::Domains, 50, "The plan allows 50 custom domains, and"),
            (LimitKind::Shares, 1, "The plan allows 1 live share, and"),
            (LimitKind::StoredBytes, 5 * GB, "The plan allows 5 GB of stored files, and"),
            (
                LimitKind::DeletedBytes,
                10 * GB,
                "The plan allows 10 GB of deleted files that wait for their removal, and",
            ),
            (LimitKind::Deployments, 200, "The plan allows 200 deployments of a project to be kept, and"),
        ] {
            let larger = quota_message(&LimitReached {
                limit,
                allowed,
                larger: Some("Pro".to_owned()),
                is_shared: false,
                lacks_payer: false,
            });
            assert!(larger.starts_with(wanted) && larger.ends_with(", or choose the Pro plan."), "{larger}");
            let none =
                quota_message(&LimitReached { limit, allowed, larger: None, is_shared: false, lacks_payer: false });
            assert!(none.starts_with(wanted) && none.ends_with(". No plan has room for it."), "{none}");
        }
        let shared = LimitReached {
            limit: LimitKind::Projects,
            allowed: 100,
            larger: Some("Pro".to_owned()),
            is_shared: true,
            lacks_payer: false,
        };
        let unpaid = quota_message(&LimitReached { lacks_payer: true, ..shared.clone() });
        assert!(unpaid.contains("take it over"), "{unpaid}");
        assert_eq!(
            quota_message(&shared),
            "The plan allows 100 projects over all organizations without a subscription that the payer of this one pays \
             for, and this would be more; delete one that is no longer needed, or choose the Pro plan for this \
             organization."
        );
    }
}
