//! Subscribing to a plan, changing it, cancelling and resuming. The operations are implemented in [`billing`].

use admin_http::{error::ApiError, extract::Json};
use api::billing::{ChangedPlan, Checkout, ChoosePlan, Subscription, TakesEffect};
use app::{
    App,
    auth::{CliUser, OrgAccess},
    rates::Bucket,
};
use axum::extract::State;
use billing::{self, BillingPermit, PlanChangeTime};
use db::{audit::Actor, billing::subscriptions, permits::Owner};
use domain::{Account, billing::subscription::SubscriptionStatus};

/// Starts a subscription to a plan and returns the page for paying its first month.
///
/// The plan applies once the payment is paid, and renews every month until it is cancelled. A repeated request before
/// that returns the same page for the same plan; another plan replaces the first.
#[utoipa::path(
    post, path = "/billing/checkout", operation_id = "start_checkout", tag = "Billing", request_body = ChoosePlan,
    responses((status = 200, description = "The page to pay on", body = Checkout)),
    extensions(("x-errors" = json!({
        "invalid_request": "there is no such plan, it costs nothing, or your billing details are not stored yet",
        "subscription_active": "you have a subscription already; change its plan instead",
        "billing_unavailable": "the operator takes no payments, or their provider does not answer",
        "rate_limit_exceeded": "you have begun as many checkouts as you may within an hour",
        "busy": "as many checkouts are under way as the server, or you, may have at a time",
    }))),
)]
pub async fn checkout_for_user(
    State(app): State<App>,
    caller: CliUser,
    Json(body): Json<ChoosePlan>,
) -> Result<Json<Checkout>, ApiError> {
    checkout(&app, &caller, &caller.user.id.clone().into(), &body).await
}

/// Starts an organization's subscription to a plan and returns the page for paying its first month.
///
/// The plan applies once the payment is paid, and renews every month until it is cancelled. A repeated request before
/// that by the same person returns the same page for the same plan; another plan or person replaces the first. The
/// person whose payment it is pays for the renewals: when they are no longer an owner, the subscription ends with the
/// paid month, and before that another owner may pay for the next one here, which begins at once.
#[utoipa::path(
    post, path = "/orgs/{name}/billing/checkout", operation_id = "start_org_checkout", tag = "Billing", request_body = ChoosePlan,
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The page to pay on", body = Checkout)),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may",
        "invalid_request": "there is no such plan, it costs nothing, or the billing details are not stored yet",
        "subscription_active": "the organization has a subscription already; change its plan instead",
        "billing_unavailable": "the operator takes no payments, or their provider does not answer",
        "rate_limit_exceeded": "you have begun as many checkouts as you may within an hour",
        "busy": "as many checkouts are under way as the server, or you, may have at a time",
    }))),
)]
pub async fn checkout_for_org(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
    Json(body): Json<ChoosePlan>,
) -> Result<Json<Checkout>, ApiError> {
    checkout(&app, &caller, &org.into(), &body).await
}

async fn checkout(
    app: &App,
    caller: &CliUser,
    payer: &BillingPermit,
    body: &ChoosePlan,
) -> Result<Json<Checkout>, ApiError> {
    // Counted per person, because organizations are free to create.
    app.rate_limits.count(Bucket::Checkout, caller.user.id.as_str()).await.check_or(
        "You have begun as many checkouts as you may within an hour; wait as long as Retry-After says, then go on.",
    )?;
    let _turn = app.bounds.checkout(&caller.user.id.clone().into()).await?;
    let page = billing::checkout(app, caller.actor(), payer, &body.plan).await?;
    Ok(Json(Checkout { checkout_url: page.into() }))
}

/// Changes your subscription to another plan.
///
/// A more expensive plan applies immediately, a cheaper one when the subscription renews; either way the new price is
/// charged at the renewal. The AI credit of a more expensive plan becomes available once it is paid. A plan entered by
/// an upgrade must be paid for one month before a cheaper one replaces it. A smaller plan is refused while usage
/// exceeds its limits, and until it applies nothing can be created that would exceed them.
#[utoipa::path(
    post, path = "/billing/change-plan", operation_id = "change_plan", tag = "Billing", request_body = ChoosePlan,
    responses((status = 200, description = "The plan was changed, or will be", body = ChangedPlan)),
    extensions(("x-errors" = json!({
        "invalid_request": "there is no such plan, or no subscription that can be changed to it",
        "plan_limit_reached": "more is used than the plan allows; the message names it",
    }))),
)]
pub async fn change_for_user(
    State(app): State<App>,
    caller: CliUser,
    Json(body): Json<ChoosePlan>,
) -> Result<Json<ChangedPlan>, ApiError> {
    change(&app, caller.actor(), &caller.user.id.clone().into(), body).await
}

/// Changes an organization's subscription to another plan.
///
/// A more expensive plan applies immediately, a cheaper one when the subscription renews; either way the new price is
/// charged at the renewal. The AI credit of a more expensive plan becomes available once it is paid. A plan entered by
/// an upgrade must be paid for one month before a cheaper one replaces it. A smaller plan is refused while usage
/// exceeds its limits, and until it applies nothing can be created that would exceed them.
#[utoipa::path(
    post, path = "/orgs/{name}/billing/change-plan", operation_id = "change_org_plan", tag = "Billing", request_body = ChoosePlan,
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The plan was changed, or will be", body = ChangedPlan)),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may, and only while the person who pays for the plan is one",
        "invalid_request": "there is no such plan, or no subscription that can be changed to it",
        "plan_limit_reached": "more is used than the plan allows; the message names it",
    }))),
)]
pub async fn change_for_org(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
    Json(body): Json<ChoosePlan>,
) -> Result<Json<ChangedPlan>, ApiError> {
    change(&app, caller.actor(), &org.into(), body).await
}

async fn change(
    app: &App,
    actor: Actor<'_>,
    payer: &BillingPermit,
    body: ChoosePlan,
) -> Result<Json<ChangedPlan>, ApiError> {
    let changed = billing::change_plan(app, actor, payer, &body.plan).await?;
    let (takes_effect, applies_at) = match changed {
        PlanChangeTime::Immediately => (TakesEffect::Immediately, app.clock.now()),
        PlanChangeTime::AtRenewal(at) => (TakesEffect::AtRenewal, at),
    };
    Ok(Json(ChangedPlan { ok: true, plan: body.plan, takes_effect, applies_at }))
}

/// Cancels your subscription: it ends with the paid month, and your plan becomes the free one.
///
/// Nothing is deleted, and until then the subscription can be resumed. Without a paid month it ends immediately.
#[utoipa::path(
    post, path = "/billing/cancel", operation_id = "cancel_subscription", tag = "Billing",
    responses((status = 200, description = "The subscription", body = Subscription)),
    extensions(("x-errors" = json!({
        "invalid_request": "you have no subscription",
    }))),
)]
pub async fn cancel_for_user(State(app): State<App>, caller: CliUser) -> Result<Json<Subscription>, ApiError> {
    let payer = BillingPermit::from(caller.user.id.clone());
    billing::cancel(&app, caller.actor(), &payer).await?;
    find_current(&app, payer.account()).await
}

/// Cancels an organization's subscription: it ends with the paid month, and its plan becomes the free one.
///
/// Nothing is deleted, and until then the subscription can be resumed. Without a paid month it ends immediately.
#[utoipa::path(
    post, path = "/orgs/{name}/billing/cancel", operation_id = "cancel_org_subscription", tag = "Billing",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The subscription", body = Subscription)),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may",
        "invalid_request": "the organization has no subscription",
    }))),
)]
pub async fn cancel_for_org(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
) -> Result<Json<Subscription>, ApiError> {
    let payer = BillingPermit::from(org);
    billing::cancel(&app, caller.actor(), &payer).await?;
    find_current(&app, payer.account()).await
}

/// Resumes your cancelled subscription, so that it renews.
///
/// Nothing is charged now: the next payment is due when the paid month ends.
#[utoipa::path(
    post, path = "/billing/resume", operation_id = "resume_subscription", tag = "Billing",
    responses((status = 200, description = "The subscription", body = Subscription)),
    extensions(("x-errors" = json!({
        "invalid_request": "you have no subscription",
    }))),
)]
pub async fn resume_for_user(State(app): State<App>, caller: CliUser) -> Result<Json<Subscription>, ApiError> {
    let payer = BillingPermit::from(caller.user.id.clone());
    billing::resume(&app, caller.actor(), &payer).await?;
    find_current(&app, payer.account()).await
}

/// Resumes an organization's cancelled subscription, so that it renews.
///
/// Needs the role of an owner. Nothing is charged now: the next payment is due when the paid month ends.
#[utoipa::path(
    post, path = "/orgs/{name}/billing/resume", operation_id = "resume_org_subscription", tag = "Billing",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The subscription", body = Subscription)),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may, and only while the person who pays for the plan is one",
        "invalid_request": "the organization has no subscription",
    }))),
)]
pub async fn resume_for_org(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
) -> Result<Json<Subscription>, ApiError> {
    let payer = BillingPermit::from(org);
    billing::resume(&app, caller.actor(), &payer).await?;
    find_current(&app, payer.account()).await
}

/// Returns the subscription after it was cancelled or resumed, even if it has ended.
async fn find_current(app: &App, account: &Account) -> Result<Json<Subscription>, ApiError> {
    let subscription = subscriptions::latest(&app.db, account).await?;
    Ok(Json(view(subscription.ok_or_else(|| ApiError::not_found("subscription"))?)))
}

pub(super) fn view(subscription: subscriptions::Subscription) -> Subscription {
    Subscription {
        status: subscription.status,
        plan: subscription.plan,
        renews_at: subscription.period_end.filter(|_| subscription.status != SubscriptionStatus::Ended),
        cancel_at_period_end: subscription.cancel_at_period_end,
    }
}
