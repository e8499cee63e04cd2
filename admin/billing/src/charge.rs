//! One charge at the provider, for a payment that is recorded before; it is retried until the provider answers.

use std::time::Duration;

use ::payments::{MandateState, PaymentError, PaymentOrder, PaymentProvider, ProviderPayment};
use app::App;
use db::{
    billing::{
        customers,
        payments::{self, Payment},
        subscriptions,
    },
    letters, orgs,
};
use domain::{
    Account,
    billing::payment::{PaymentSequence, PaymentState},
};
use url::Url;

use super::{
    PaymentTerms,
    schedule::{MANDATE_PAUSE, MANDATE_WAIT, next_call_retry},
    settle::{PaymentReport, settle},
};

#[derive(Debug)]
pub(crate) enum ChargeOutcome {
    /// The provider has the payment.
    Told(Box<ProviderPayment>),
    /// The provider refuses to make the payment, for this reason.
    Refused(String),
    /// The provider does not know the payer, or no longer knows the payment.
    Unknown,
    /// The provider did not respond, or the customer's mandate is pending: the charge is retried later, after this
    /// pause if the provider asks for one.
    Later(Option<Duration>),
}

/// Creates the payment at the provider, or reads it if it exists, and records the response. Repeated calls do not
/// charge twice: the provider knows the payment by our id.
pub(crate) async fn charge(
    app: &App,
    provider: &dyn PaymentProvider,
    payment: &Payment,
) -> anyhow::Result<ChargeOutcome> {
    match create_or_read_payment(app, provider, payment).await {
        Ok(Some(said)) => {
            settle(app, payment, PaymentReport::Provider(&said)).await?;
            Ok(ChargeOutcome::Told(Box::new(said)))
        }
        Ok(None) => {
            payments::postpone_check(&app.db, &payment.id, app.clock.now() + MANDATE_PAUSE).await?;
            Ok(ChargeOutcome::Later(None))
        }
        Err(ChargeError::Provider(PaymentError::Unavailable { reason, retry_after })) => {
            postpone(app, payment, &reason, retry_after).await
        }
        // The key now belongs to another account, or the provider has lost the customer: a payer who is present starts
        // over.
        Err(ChargeError::Provider(PaymentError::Unknown)) if payment.sequence == PaymentSequence::First => {
            let payer = subscriptions::find_payer(&app.db, &payment.subscription_id).await?;
            let subscription = subscriptions::current(&app.db, &payment.account).await?;
            // An abandoned checkout is no reason to forget the customer whose mandate pays for a plan.
            if !subscription.is_some_and(|current| current.status.is_entitled() && current.payer == payer) {
                customers::forget(&app.db, &payment.account, &payment.provider).await?;
            }
            settle(app, payment, PaymentReport::Unknown).await?;
            Ok(ChargeOutcome::Unknown)
        }
        // The provider did make this payment before.
        Err(ChargeError::Provider(PaymentError::Unknown)) if payment.state == PaymentState::Open => {
            settle(app, payment, PaymentReport::Unknown).await?;
            Ok(ChargeOutcome::Unknown)
        }
        Err(ChargeError::Provider(refusal @ (PaymentError::Refused(_) | PaymentError::Unknown))) => {
            handle_refusal(app, provider, payment, &refusal.to_string()).await
        }
        Err(ChargeError::Own(error)) => Err(error),
    }
}

/// Records a refusal, unless the provider has made the payment before: then that response was lost, and what the payer
/// or their bank has done since does not make it a refusal.
async fn handle_refusal(
    app: &App,
    provider: &dyn PaymentProvider,
    payment: &Payment,
    reason: &str,
) -> anyhow::Result<ChargeOutcome> {
    let customer = find_customer(app, payment).await?;
    let made = match customer {
        Some(customer) => provider.find_payment(&payment.id, &customer).await,
        None => Ok(None),
    };
    match made {
        Ok(Some(said)) => {
            settle(app, payment, PaymentReport::Provider(&said)).await?;
            Ok(ChargeOutcome::Told(Box::new(said)))
        }
        Err(PaymentError::Unavailable { reason, retry_after }) => postpone(app, payment, &reason, retry_after).await,
        Ok(None) | Err(PaymentError::Unknown | PaymentError::Refused(_)) => {
            settle(app, payment, PaymentReport::Refused(reason)).await?;
            Ok(ChargeOutcome::Refused(reason.to_owned()))
        }
    }
}

async fn postpone(
    app: &App,
    payment: &Payment,
    reason: &str,
    retry_after: Option<Duration>,
) -> anyhow::Result<ChargeOutcome> {
    tracing::debug!(payment = %payment.id, reason, "the payment provider does not answer");
    let again = next_call_retry(payment.look_failures, retry_after, app.clock.now());
    payments::postpone_check(&app.db, &payment.id, again).await?;
    Ok(ChargeOutcome::Later(retry_after))
}

enum ChargeError {
    Provider(PaymentError),
    Own(anyhow::Error),
}

impl From<PaymentError> for ChargeError {
    fn from(error: PaymentError) -> Self {
        Self::Provider(error)
    }
}

impl From<sqlx::Error> for ChargeError {
    fn from(error: sqlx::Error) -> Self {
        Self::Own(error.into())
    }
}

/// Returns `None` while the customer's mandate is pending.
async fn create_or_read_payment(
    app: &App,
    provider: &dyn PaymentProvider,
    payment: &Payment,
) -> Result<Option<ProviderPayment>, ChargeError> {
    if let (Some(id), false) = (&payment.provider_id, payment.state == PaymentState::Intended) {
        return Ok(Some(provider.payment(id).await?));
    }
    let terms: PaymentTerms =
        serde_json::from_value(payment.terms.clone()).map_err(|error| ChargeError::Own(error.into()))?;
    let customer_id = match payment.sequence {
        PaymentSequence::First => find_or_create_customer(app, provider, payment, &terms).await?,
        PaymentSequence::Recurring => {
            // They may have left since the charge was recorded.
            if subscriptions::has_payer_left(&app.db, &payment.subscription_id).await? {
                return Err(PaymentError::Refused("who gave the mandate is no owner any more".to_owned()).into());
            }
            let customer = find_customer(app, payment).await?;
            let customer = customer.ok_or_else(|| PaymentError::Refused("there is no customer".to_owned()))?;
            match provider.mandate(&customer).await? {
                MandateState::Valid => customer,
                MandateState::Pending if app.clock.now().since(payment.created_at) < MANDATE_WAIT => return Ok(None),
                MandateState::Pending => {
                    return Err(PaymentError::Refused("the mandate is still pending".to_owned()).into());
                }
                MandateState::Missing => return Err(PaymentError::Refused("there is no mandate".to_owned()).into()),
            }
        }
    };
    let site = &app.config.site;
    let webhook_url = site.base_url.join("/webhooks/payments").map_err(|error| ChargeError::Own(error.into()))?;
    let redirect_url = bill_page(app, payment).await.map_err(ChargeError::Own)?;
    let order = PaymentOrder {
        id: &payment.id,
        customer_id: &customer_id,
        sequence: payment.sequence,
        total: payment.total_cents,
        description: &terms.description(),
        redirect_url: &redirect_url,
        webhook_url: &webhook_url,
    };
    Ok(Some(provider.create_payment(&order).await?))
}

/// Returns the console's billing page of the account, where the provider sends the payer whether they paid or not. The
/// page shows the payment's outcome.
pub(super) async fn bill_page(app: &App, payment: &Payment) -> anyhow::Result<Url> {
    let name = match &payment.account {
        Account::User(_) => None,
        Account::Org(id) => orgs::find_name(&app.db, id).await?,
    };
    let path = name.map_or_else(|| "/billing".to_owned(), |name| format!("/orgs/{name}/billing"));
    let mut page = app.config.site.console_url.join(&path)?;
    page.query_pairs_mut().append_pair("checkout", &payment.plan);
    Ok(page)
}

/// Returns the customer whose mandates are those of the payer of the payment's subscription.
async fn find_customer(app: &App, payment: &Payment) -> Result<Option<String>, sqlx::Error> {
    let payer = subscriptions::find_payer(&app.db, &payment.subscription_id).await?;
    customers::find(&app.db, &payment.account, payer.as_ref(), &payment.provider).await
}

async fn find_or_create_customer(
    app: &App,
    provider: &dyn PaymentProvider,
    payment: &Payment,
    terms: &PaymentTerms,
) -> Result<String, ChargeError> {
    let account = &payment.account;
    if let Some(known) = find_customer(app, payment).await? {
        return Ok(known);
    }
    let payer = subscriptions::find_payer(&app.db, &payment.subscription_id).await?;
    let mut conn = app.db.acquire().await?;
    let person = payer.clone().map_or_else(|| account.clone(), Account::User);
    let contacts = letters::contacts(&mut conn, &person).await?;
    drop(conn);
    let email = contacts.first().map(|contact| &contact.address);
    let made = provider.create_customer(account, payer.as_ref(), terms.buyer.name.as_str(), email).await?;
    Ok(customers::record(&app.db, account, payer.as_ref(), &payment.provider, &made, app.clock.now()).await?)
}
