//! Ends subscriptions: cancels them for the end of the month, resumes them before it, ends them without deleting
//! anything.

use admin_http::error::{ApiError, Code};
use app::{App, change::Change};
use db::{
    audit::Actor,
    billing::{
        payments,
        subscriptions::{self, Subscription},
    },
};
use domain::{
    Account, OrgId, UserId,
    audit::Action,
    billing::subscription::{EndReason, SubscriptionStatus},
    changes::ChangeSubject,
};
use mail::notices::{Notice, notify, notify_also};

use super::{BillingPermit, audit};

/// Cancels the account's subscription for the end of its present month. If that month is not paid, it ends immediately,
/// unless a charge is under way.
pub async fn cancel(app: &App, actor: Actor<'_>, payer: &BillingPermit) -> Result<(), ApiError> {
    let mut change = app.change(actor).await?;
    let account = payer.account();
    payer.lock(&mut change).await?;
    let mut subscription = lock_entitled(&mut change, account).await?;
    if subscription.cancel_at_period_end {
        return Ok(());
    }
    cancel_locked(app, &mut change, &mut subscription).await?;
    change.commit().await?;
    Ok(())
}

/// Cancels a locked subscription that is entitled and not cancelled, and stores it.
async fn cancel_locked(app: &App, change: &mut Change<'_>, subscription: &mut Subscription) -> Result<(), sqlx::Error> {
    subscription.cancel_at_period_end = true;
    audit(change, &subscription.account, Action::BillingRenewal, "canceled", &subscription.plan).await?;
    let of_month = payments::lock_month(change, &subscription.id, subscription.due_period).await?;
    let is_under_way = of_month.iter().any(payments::Payment::is_live);
    if subscription.status == SubscriptionStatus::PastDue && !is_under_way {
        end(app, change, subscription, EndReason::Canceled).await?;
    }
    subscriptions::store(change, subscription).await
}

/// Cancels what an organization charges to the mandate of a person who is an owner no more, and writes to that person
/// and to the owners. The caller has locked the organization, and has changed its members already.
pub async fn cancel_for_former_owner(
    app: &App,
    change: &mut Change<'_>,
    org: &OrgId,
    former: &UserId,
) -> Result<(), sqlx::Error> {
    let (account, now) = (Account::Org(org.clone()), change.now());
    let of_account = subscriptions::lock(change, &account).await?;
    for mut subscription in of_account.into_iter().filter(|of| of.payer.as_ref() == Some(former)) {
        match subscription.status {
            SubscriptionStatus::Active | SubscriptionStatus::PastDue if !subscription.cancel_at_period_end => {
                cancel_locked(app, change, &mut subscription).await?;
                let plan = app.plans().find(&subscription.plan).map_or(&subscription.plan, |plan| &plan.name).clone();
                let until = subscription.period_end.filter(|_| subscription.status != SubscriptionStatus::Ended);
                let notice = Notice::PayerLeft { plan, until };
                let event = format!("payer_left/{}/{}", subscription.id, subscription.period);
                notify_also(change, &account, former, &event, &notice, now).await?;
            }
            SubscriptionStatus::Pending => {
                end(app, change, &mut subscription, EndReason::Canceled).await?;
                subscriptions::store(change, &subscription).await?;
            }
            SubscriptionStatus::Active | SubscriptionStatus::PastDue | SubscriptionStatus::Ended => {}
        }
    }
    // What is paid after all lasts for the paid month.
    subscriptions::cancel_ended(change, &account, former).await
}

/// Refuses what would charge the mandate of a person who can no longer decide for the organization.
pub(super) async fn ensure_mandate(change: &mut Change<'_>, subscription: &Subscription) -> Result<(), ApiError> {
    if !subscriptions::is_mandate_gone(&mut **change, subscription).await? {
        return Ok(());
    }
    Err(ApiError::new(
        Code::Forbidden,
        "Whoever pays for this plan is no longer an owner, or is suspended. Cancel it if it is not cancelled yet, and pay \
         for the next one yourself: `svc billing checkout <plan>`, or POST …/checkout.",
    ))
}

/// Resumes a cancelled subscription before it ends.
pub async fn resume(app: &App, actor: Actor<'_>, payer: &BillingPermit) -> Result<(), ApiError> {
    let mut change = app.change(actor).await?;
    let account = payer.account();
    payer.lock(&mut change).await?;
    let mut subscription = lock_entitled(&mut change, account).await?;
    if !subscription.cancel_at_period_end {
        return Ok(());
    }
    ensure_mandate(&mut change, &subscription).await?;
    if payments::is_month_owed(&mut *change, &subscription.id).await? {
        return Err(ApiError::invalid(
            "A payment was charged back, and its month is not paid; buy the plan again once this one has ended.",
        ));
    }
    subscription.cancel_at_period_end = false;
    audit(&mut change, account, Action::BillingRenewal, "resumed", &subscription.plan).await?;
    subscriptions::store(&mut change, &subscription).await?;
    change.commit().await?;
    Ok(())
}

pub(super) async fn lock_entitled(change: &mut Change<'_>, account: &Account) -> Result<Subscription, ApiError> {
    let of_account = subscriptions::lock(change, account).await?;
    let entitled = of_account.into_iter().find(|subscription| subscription.status.is_entitled());
    entitled.ok_or_else(|| {
        ApiError::invalid(
            "There is no subscription; buy a plan first: `svc billing checkout <plan>`, or POST …/checkout.",
        )
    })
}

/// Ends a subscription; the caller stores it. The account is on the free plan from then on, and nothing is deleted.
pub(super) async fn end(
    app: &App,
    change: &mut Change<'_>,
    subscription: &mut Subscription,
    reason: EndReason,
) -> Result<(), sqlx::Error> {
    let now = change.now();
    let was_entitled = subscription.status.is_entitled();
    subscription.status = SubscriptionStatus::Ended;
    subscription.ended_at = Some(now);
    subscription.end_reason = Some(reason);
    subscription.next_attempt_at = None;
    subscription.next_plan = None;
    if !was_entitled {
        return Ok(());
    }
    let account = subscription.account.clone();
    change.touch(ChangeSubject::Plan(account.clone().into()));
    let is_unpaid = reason == EndReason::Unpaid;
    let what = if is_unpaid { "ended_unpaid" } else { "ended" };
    audit(change, &account, Action::BillingPlan, what, &subscription.plan).await?;
    let plan = app.plans().find(&subscription.plan).map_or(&subscription.plan, |plan| &plan.name).clone();
    let event = format!("subscription_ended/{}/{}", subscription.id, subscription.period);
    notify(change, &account, &event, &Notice::SubscriptionEnded { plan, is_unpaid }, None, now).await
}
