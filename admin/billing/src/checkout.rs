//! The checkout of a plan: the first payment of a subscription, which sets up the mandate for later ones.

use ::payments::ProviderKind;
use admin_http::error::{ApiError, Code};
use app::App;
use db::{
    audit::Actor,
    billing::{
        payments::{self, Payment},
        subscriptions,
    },
};
use domain::{
    Account, PaymentId, SubscriptionId, Timestamp,
    audit::Action,
    billing::{
        payment::{PaymentSequence, PaymentState},
        subscription::{EndReason, SubscriptionStatus},
    },
};
use url::Url;

use super::{
    BillingPermit, PaymentTerms, audit,
    charge::{ChargeOutcome, bill_page, charge},
    end::end,
    provider,
    schedule::next_call_retry,
};

/// The most payments that one checkout starts: a second one if the first turns out to have ended.
const ATTEMPTS: usize = 2;

/// Starts a subscription, and returns the page on which its first payment is paid. Called again by the same person
/// for the same plan while that payment can still be paid, it returns the same page.
pub async fn checkout(app: &App, actor: Actor<'_>, payer: &BillingPermit, plan: &str) -> Result<Url, ApiError> {
    let provider = provider(app)?;
    let found =
        app.plans().find(plan).ok_or_else(|| ApiError::invalid(format!("There is no plan called {plan:?}.")))?;
    if found.price_cents == 0 {
        return Err(ApiError::invalid(format!("{} costs nothing, so that it cannot be bought.", found.name)));
    }
    for _ in 0..ATTEMPTS {
        let intent = find_or_record_payment(app, actor, payer, plan, provider.kind()).await?;
        match charge(app, provider, &intent).await.map_err(ApiError::internal)? {
            ChargeOutcome::Told(said) => match (said.state, said.checkout_url) {
                (PaymentState::Paid, _) => return bill_page(app, &intent).await.map_err(ApiError::internal),
                (PaymentState::Open | PaymentState::Intended, Some(url)) => return Ok(url),
                (PaymentState::Open | PaymentState::Intended, None) => {
                    return Err(unavailable("no checkout page was made"));
                }
                (PaymentState::Failed | PaymentState::Canceled | PaymentState::Expired, _) => {}
            },
            ChargeOutcome::Later(retry_after) => {
                let known = intent.checkout_url.as_deref().and_then(|url| url.parse().ok());
                let error = unavailable("it does not answer");
                return known.ok_or(match retry_after {
                    Some(wait) => error.retry_after(wait),
                    None => error,
                });
            }
            ChargeOutcome::Unknown => {}
            ChargeOutcome::Refused(reason) => return Err(unavailable(&reason)),
        }
    }
    Err(unavailable("every payment ended immediately"))
}

fn unavailable(reason: &str) -> ApiError {
    ApiError::new(
        Code::BillingUnavailable,
        "The payment provider cannot be used at the moment. Please try again later.",
    )
    .caused_by(anyhow::anyhow!("checkout: {reason}"))
}

/// Returns the payer's unpaid payment for this plan on the same terms, or records a new one.
async fn find_or_record_payment(
    app: &App,
    actor: Actor<'_>,
    payer: &BillingPermit,
    plan: &str,
    provider: ProviderKind,
) -> Result<Payment, ApiError> {
    let mut change = app.change(actor).await?;
    let (account, now) = (payer.account(), change.now());
    // Lock before looking: two concurrent checkouts would not see each other's payment.
    payer.lock(&mut change).await?;
    let of_account = subscriptions::lock(&mut change, account).await?;
    let entitled = of_account.iter().find(|subscription| subscription.status.is_entitled());
    // A subscription that ends because its payer has left must not keep the others from paying for the next.
    if let Some(entitled) = entitled
        && !(entitled.cancel_at_period_end && subscriptions::is_mandate_gone(&mut *change, entitled).await?)
    {
        return Err(ApiError::new(
            Code::SubscriptionActive,
            "There is a subscription already; change its plan instead: `svc billing change <plan>`, or POST …/change-plan.",
        ));
    }
    let terms = PaymentTerms::for_month(app, &mut *change, account, plan, now).await?;
    let terms_value = serde_json::to_value(&terms).map_err(ApiError::internal)?;
    for mut subscription in of_account.into_iter().filter(|of| of.status == SubscriptionStatus::Pending).rev() {
        let begun = payments::lock_month(&mut change, &subscription.id, 0).await?;
        let same = begun.into_iter().find(|payment| {
            let is_same =
                payment.plan == plan && payment.terms == terms_value && subscription.payer.as_ref() == payer.person();
            is_same && payment.state.is_under_way() && payment.provider == provider.as_str()
        });
        if let Some(same) = same {
            return Ok(same);
        }
        // An account has one pending subscription. If the replaced one is paid after all, it starts, or its money is
        // refunded.
        end(app, &mut change, &mut subscription, EndReason::Replaced).await?;
        subscriptions::store(&mut change, &subscription).await?;
    }
    let subscription = SubscriptionId::new(now);
    subscriptions::insert(&mut change, &subscription, account, payer.person(), plan, now).await?;
    let payment = new_payment(account, &subscription, PaymentSequence::First, 0, 0, &terms, provider, now)?;
    payments::insert(&mut change, &payment).await?;
    audit(&mut change, account, Action::BillingPlan, "checkout", plan).await?;
    change.commit_without_waiting().await?;
    Ok(payment)
}

#[expect(clippy::too_many_arguments, reason = "each is a column of the row")]
pub(super) fn new_payment(
    account: &Account,
    subscription: &SubscriptionId,
    sequence: PaymentSequence,
    period: i32,
    attempt: i32,
    terms: &PaymentTerms,
    provider: ProviderKind,
    now: Timestamp,
) -> Result<Payment, sqlx::Error> {
    Ok(Payment {
        id: PaymentId::new(now),
        account: account.clone(),
        subscription_id: subscription.clone(),
        sequence,
        period,
        plan: terms.plan.clone(),
        attempt,
        net_cents: terms.amounts.net,
        vat_cents: terms.amounts.vat,
        total_cents: terms.amounts.total,
        terms: serde_json::to_value(terms).map_err(|error| sqlx::Error::Encode(error.into()))?,
        state: PaymentState::Intended,
        provider: provider.as_str().to_owned(),
        provider_id: None,
        checkout_url: None,
        method: None,
        failure: None,
        covers: true,
        difference: None,
        lost_since: None,
        created_at: now,
        settled_at: None,
        // The caller contacts the provider right away; a job does if that is interrupted.
        next_look_at: Some(next_call_retry(1, None, now)),
        look_failures: 0,
    })
}
