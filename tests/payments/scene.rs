//! A client of Mollie, with a clock of its own, and the stub that it speaks to.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use domain::{
    Account, Clock, PaymentId, ReversalId, Timestamp,
    billing::{Cents, payment::PaymentSequence},
};
use payments::{
    PaymentError, PaymentOrder, PaymentProvider, ProviderPayment, ProviderReversal, RefundOrder,
    mollie::MollieProvider as Client,
};
use url::Url;

use crate::stubs::mollie::{API_KEY, Mollie};

const BEGINS: i64 = 1_767_268_800_000;

/// A client and its Mollie.
pub(super) struct Scene {
    pub(super) mollie: Mollie,
    pub(super) client: Client,
    millis: Arc<AtomicI64>,
}

impl Scene {
    pub(super) async fn start() -> Self {
        let mollie = Mollie::start().await;
        let millis = Arc::new(AtomicI64::new(BEGINS));
        let shared = millis.clone();
        let clock = Clock::from_fn(move || Timestamp::from_unix_millis(shared.load(Ordering::SeqCst)));
        let client = client(&mollie.url, API_KEY, clock);
        Self { mollie, client, millis }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.millis.load(Ordering::SeqCst))
    }

    pub(super) fn hours_pass(&self, hours: i64) {
        self.millis.fetch_add(hours * 3_600_000, Ordering::SeqCst);
    }

    /// A customer of Mollie's.
    pub(super) async fn customer(&self) -> String {
        self.client.create_customer(&account(), None, "Ada Lovelace", None).await.unwrap()
    }

    /// A customer who has paid a first payment.
    pub(super) async fn payer(&self) -> String {
        let customer = self.customer().await;
        let first = self.pay(&self.intent(), &customer, PaymentSequence::First, 1_210).await.unwrap();
        self.mollie.settle(&first.id, "paid");
        customer
    }

    /// The id of an order of now.
    pub(super) fn intent(&self) -> PaymentId {
        PaymentId::new(self.now())
    }

    /// Orders a payment.
    pub(super) async fn pay(
        &self,
        id: &PaymentId,
        customer_id: &str,
        sequence: PaymentSequence,
        cents: i64,
    ) -> Result<ProviderPayment, PaymentError> {
        let (redirect_url, webhook_url) =
            (url("https://app.example/billing"), url("https://api.example/webhooks/payments"));
        let order = PaymentOrder {
            id,
            customer_id,
            sequence,
            total: Cents(cents),
            description: "Pro, January 2026",
            redirect_url: &redirect_url,
            webhook_url: &webhook_url,
        };
        self.client.create_payment(&order).await
    }

    /// Asks for a refund.
    pub(super) async fn refund(
        &self,
        id: &ReversalId,
        payment_id: &str,
        cents: i64,
    ) -> Result<ProviderReversal, PaymentError> {
        let refund = RefundOrder { id, payment_id, total: Cents(cents), description: "Credit note CN-2026-000001" };
        self.client.refund(&refund).await
    }
}

pub(super) fn account() -> Account {
    "usr_0123456789abcdefghij".parse().unwrap()
}

pub(super) fn url(text: &str) -> Url {
    text.parse().unwrap()
}

/// A client of the Mollie at `url` that shows this key.
pub(super) fn client(url: &str, key: &str, clock: Clock) -> Client {
    let billing = config::Billing {
        mollie_url: url.parse().unwrap(),
        mollie_api_key: Some(key.to_owned()),
        ..config::Billing::default()
    };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Client::new(&billing, clock).unwrap()
}

/// Why a call can be made again later.
#[track_caller]
pub(super) fn unavailable<T: std::fmt::Debug>(result: Result<T, PaymentError>) -> String {
    match result {
        Err(PaymentError::Unavailable { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Why a call is refused for good.
#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, PaymentError>) -> String {
    match result {
        Err(PaymentError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}
