//! Mollie, by the documented wire format of its API v2.
//!
//! [`wire`] parses Mollie's responses, [`call`] sends and receives within bounds. No call is retried here: a retry is a
//! row with a time, which a job processes.

mod call;
mod wire;

use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use domain::{Account, Clock, EmailAddress, PaymentId, Timestamp, UserId};
use reqwest::Client;
use secrecy::SecretString;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use url::{Host, Url};

use self::wire::{MandateList, PaymentList, WireAmount, WireCustomer, WirePayment, WireRefund};
use super::{
    MandateState, PaymentError, PaymentOrder, PaymentProvider, ProviderKind, ProviderPayment, ProviderReversal,
    RefundOrder,
};

/// The age up to which the idempotency key alone protects a repeated order: Mollie remembers keys only for a short
/// time.
const KEY_TRUSTED: Duration = Duration::from_mins(30);
const DESCRIPTION_CHARS: usize = 255;
const NAME_CHARS: usize = 200;
/// The page size of lists: Mollie's maximum.
const PER_PAGE: &str = "250";
const KEY_PREFIXES: [&str; 2] = ["live_", "test_"];

/// Mollie as a payment provider.
pub struct MollieProvider {
    client: Client,
    api: Url,
    key: SecretString,
    clock: Clock,
}

impl MollieProvider {
    /// Creates the configured provider. Fails if the key is missing, or would be sent unencrypted.
    pub fn new(billing: &config::Billing, clock: Clock) -> anyhow::Result<Self> {
        let key = billing.mollie_api_key.as_deref().unwrap_or_default().trim();
        anyhow::ensure!(
            !key.is_empty(),
            "billing.mollie_api_key must hold the API key (live_… or test_…) that Mollie's dashboard shows under Developers"
        );
        anyhow::ensure!(
            KEY_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) && key.bytes().all(|b| b.is_ascii_graphic()),
            "billing.mollie_api_key must be an API key, which begins with live_ or test_"
        );
        let api = call::without_version(billing.mollie_url.clone());
        let is_local = match api.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        anyhow::ensure!(
            api.scheme() == "https" || (api.scheme() == "http" && is_local),
            "billing.mollie_url must begin with https://: the API key is sent there"
        );
        Ok(Self { client: call::client().context("billing.provider")?, api, key: key.into(), clock })
    }

    fn may_have_forgotten(&self, time: Timestamp) -> bool {
        self.clock.now().since(time) > KEY_TRUSTED
    }
}

#[async_trait]
impl PaymentProvider for MollieProvider {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Mollie
    }

    async fn create_customer(
        &self,
        account: &Account,
        payer: Option<&UserId>,
        name: &str,
        email: Option<&EmailAddress>,
    ) -> Result<String, PaymentError> {
        const CALL: &str = "POST /v2/customers";
        let mut body = json!({
            "name": bounded(name, NAME_CHARS),
            "metadata": { "account": account.as_str() },
        });
        if let Some(payer) = payer {
            body["metadata"]["payer"] = payer.as_str().into();
        }
        if let Some(email) = email {
            body["email"] = email.as_str().into();
        }
        // Hash the whole body: a customer whose name has changed meanwhile is a different request.
        let key = hex::encode(Sha256::digest(body.to_string()));
        let customer: WireCustomer = call::send(CALL, self.post(CALL, &["customers"], &key, &body)?).await?;
        wire::check_id(CALL, customer.id)
    }

    async fn create_payment(&self, order: &PaymentOrder<'_>) -> Result<ProviderPayment, PaymentError> {
        const CALL: &str = "POST /v2/payments";
        if self.may_have_forgotten(order.id.time())
            && let Some(payment) = self.find_payment(order.id, order.customer_id).await?
        {
            return Ok(payment);
        }
        let body = wire::order(order, &bounded(order.description, DESCRIPTION_CHARS));
        let request = self.post(CALL, &["payments"], order.id.as_str(), &body)?;
        let payment = call::send::<WirePayment>(CALL, request).await?.read(CALL)?;
        if payment.order.as_ref() != Some(order.id) {
            return Err(call::unexpected_response(CALL, "another order's payment"));
        }
        Ok(payment)
    }

    async fn payment(&self, provider_id: &str) -> Result<ProviderPayment, PaymentError> {
        const CALL: &str = "GET /v2/payments/{id}";
        let request = self.get(CALL, &["payments", provider_id], ("embed", "refunds,chargebacks"))?;
        let payment = call::send::<WirePayment>(CALL, request).await?.read(CALL)?;
        if payment.id != provider_id {
            return Err(call::unexpected_response(CALL, "another payment"));
        }
        Ok(payment)
    }

    async fn find_payment(
        &self,
        order: &PaymentId,
        customer_id: &str,
    ) -> Result<Option<ProviderPayment>, PaymentError> {
        const CALL: &str = "GET /v2/customers/{id}/payments";
        let request = self.get(CALL, &["customers", customer_id, "payments"], ("limit", PER_PAGE))?;
        let listed: PaymentList = call::send(CALL, request).await?;
        match listed.find_id(order) {
            Some(id) => self.payment(id).await.map(Some),
            None => Ok(None),
        }
    }

    async fn mandate(&self, customer_id: &str) -> Result<MandateState, PaymentError> {
        const CALL: &str = "GET /v2/customers/{id}/mandates";
        let request = self.get(CALL, &["customers", customer_id, "mandates"], ("limit", PER_PAGE))?;
        call::send::<MandateList>(CALL, request).await?.read(CALL)
    }

    async fn refund(&self, refund: &RefundOrder<'_>) -> Result<ProviderReversal, PaymentError> {
        const CALL: &str = "POST /v2/payments/{id}/refunds";
        if self.may_have_forgotten(refund.id.time()) {
            let payment = self.payment(refund.payment_id).await?;
            let made = payment.reversals.into_iter().find(|reversal| reversal.order.as_ref() == Some(refund.id));
            if let Some(made) = made {
                return Ok(made);
            }
        }
        let body = json!({
            "amount": WireAmount::from(refund.total),
            "description": bounded(refund.description, DESCRIPTION_CHARS),
            "metadata": { "reversal_id": refund.id.as_str() },
        });
        let request = self.post(CALL, &["payments", refund.payment_id, "refunds"], refund.id.as_str(), &body)?;
        call::send::<WireRefund>(CALL, request).await?.read(CALL)
    }
}

fn bounded(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}
