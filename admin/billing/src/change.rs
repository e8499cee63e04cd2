//! Plan changes: upgrades apply immediately, downgrades with the next month.

use admin_http::error::{ApiError, Code};
use app::App;
use db::{
    audit::Actor,
    billing::{
        subscriptions,
        usage::{self, AccountHoldings},
    },
};
use domain::{
    Timestamp,
    audit::Action,
    billing::subscription::{PlanChange, SubscriptionStatus},
    changes::ChangeSubject,
    plans::PlanLimits,
};

use super::{
    BillingPermit, audit,
    end::{ensure_mandate, lock_entitled},
    upgrade,
};

/// When a change of plan applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanChangeTime {
    /// It applies now; the new price is charged from the next month on.
    Immediately,
    /// It applies from this start of a month: this month's, the next one's or the one's after it.
    AtRenewal(Timestamp),
}

/// Changes the plan of the account's subscription: immediately to a dearer one, with the next month to a cheaper one
/// unless the account has more than that plan allows. Choosing the present plan withdraws a scheduled change.
///
/// A plan reached by a mid-month upgrade is charged for one month before a cheaper one replaces it. An account that
/// left such a plan unpaid gets its next upgrade only at the renewal.
pub async fn change_plan(
    app: &App,
    actor: Actor<'_>,
    payer: &BillingPermit,
    plan: &str,
) -> Result<PlanChangeTime, ApiError> {
    let wanted =
        app.plans().find(plan).ok_or_else(|| ApiError::invalid(format!("There is no plan called {plan:?}.")))?;
    let mut change = app.change(actor).await?;
    let account = payer.account();
    payer.lock(&mut change).await?;
    let mut subscription = lock_entitled(&mut change, account).await?;
    ensure_mandate(&mut change, &subscription).await?;
    if subscription.cancel_at_period_end {
        return Err(ApiError::invalid("The subscription is cancelled; resume it first, then change the plan."));
    }
    // A plan that is no longer configured has no price to compare.
    let direction = PlanChange::between(app.plans(), &subscription.plan, plan).unwrap_or(PlanChange::Upgrade);
    let changed = match direction {
        PlanChange::None => {
            if subscription.next_plan.take().is_none() {
                return Ok(PlanChangeTime::Immediately);
            }
            PlanChangeTime::Immediately
        }
        PlanChange::Upgrade => {
            if subscription.status == SubscriptionStatus::PastDue {
                return Err(ApiError::invalid("A charge has failed; the plan can be changed once it is paid."));
            }
            let now = change.now();
            if upgrade::has_left_unpaid_plan(app, &mut change, account).await? {
                subscription.next_plan = Some(plan.to_owned());
                PlanChangeTime::AtRenewal(subscription.period_end.unwrap_or(now))
            } else {
                plan.clone_into(&mut subscription.plan);
                subscription.next_plan = None;
                change.touch(ChangeSubject::Plan(account.clone().into()));
                PlanChangeTime::Immediately
            }
        }
        PlanChange::Downgrade => {
            if wanted.price_cents == 0 {
                return Err(ApiError::invalid(format!(
                    "{} costs nothing; cancel the subscription instead.",
                    wanted.name
                )));
            }
            let now = change.now();
            let holdings = usage::holdings(&mut *change, account, now).await?;
            if let Some(over) = find_exceeded_limit(&holdings, &wanted.limits) {
                let message = format!("{} allows {over}; remove what is over first.", wanted.name);
                return Err(ApiError::new(Code::PlanLimitReached, message));
            }
            subscription.next_plan = Some(plan.to_owned());
            let is_unpaid = upgrade::is_unpaid(app, &mut change, &subscription).await?;
            let month = subscription.period.saturating_add(if is_unpaid { 2 } else { 1 });
            PlanChangeTime::AtRenewal(subscription.month_start(month).unwrap_or(now))
        }
    };
    audit(&mut change, account, Action::BillingPlan, "changed", plan).await?;
    subscriptions::store(&mut change, &subscription).await?;
    change.commit().await?;
    Ok(changed)
}

fn find_exceeded_limit(holdings: &AccountHoldings, limits: &PlanLimits) -> Option<String> {
    let counts = [
        (holdings.projects, limits.projects, "projects"),
        (holdings.domains, limits.domains, "custom domains"),
        (holdings.shares, limits.shares, "live shares"),
        (holdings.orgs, limits.orgs, "organizations"),
        (holdings.seats, limits.members, "members with pending invites"),
    ];
    let counted = counts.into_iter().find(|(has, most, _)| *has > i64::from(*most));
    if let Some((has, most, what)) = counted {
        return Some(format!("{most} {what}, and there are {has}"));
    }
    let stored = u64::try_from(holdings.stored_bytes).unwrap_or_default();
    let most = limits.storage_bytes;
    (stored > most).then(|| format!("{most} bytes of stored files, and there are {stored}"))
}

#[cfg(test)]
mod tests {
    use domain::plans::Plans;

    use super::*;

    #[test]
    fn what_is_over_is_named_with_both_numbers() {
        let plans = Plans::default();
        let limits = plans.find("pro").unwrap().limits;
        let none = AccountHoldings { orgs: 0, seats: 0, projects: 0, domains: 0, shares: 0, stored_bytes: 0 };
        assert_eq!(find_exceeded_limit(&none, &limits), None);
        let most = i64::from(limits.domains);
        assert_eq!(find_exceeded_limit(&AccountHoldings { domains: most, ..none }, &limits), None);
        let named = find_exceeded_limit(&AccountHoldings { domains: most + 1, ..none }, &limits).unwrap();
        assert_eq!(named, format!("{most} custom domains, and there are {}", most + 1));
    }
}
