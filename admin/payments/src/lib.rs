//! The payment provider. [`PaymentProvider`] is the port that each kind of provider implements: [`mollie`] for money,
//! [`play`] for trials of the service.
//!
//! A provider moves money and reports the outcome; `billing` decides who owes what, and when.

pub mod mollie;
pub mod play;

use std::{sync::Arc, time::Duration};

use admin_http::addresses::ConsoleAddresses;
use async_trait::async_trait;
use config::{BillingProvider, Config, InvoiceSeller};
use domain::{
    Account, Clock, EmailAddress, PaymentId, ReversalId, UserId,
    billing::{
        Cents,
        payment::{PaymentSequence, PaymentState, ReversalKind, ReversalState},
    },
};
use sqlx::PgPool;
use url::Url;

/// A provider that charges customers. Every call is idempotent.
#[async_trait]
pub trait PaymentProvider: Send + Sync {
    /// Returns the kind of provider; ids are stored under it.
    fn kind(&self) -> ProviderKind;

    /// Creates a customer for the account, and returns the customer's id. Of an organization, each payer is a customer of
    /// their own: a recurring payment may charge any mandate of its customer.
    async fn create_customer(
        &self,
        account: &Account,
        payer: Option<&UserId>,
        name: &str,
        email: Option<&EmailAddress>,
    ) -> Result<String, PaymentError>;

    /// Creates a payment; repeated with the same order, returns the existing one.
    async fn create_payment(&self, order: &PaymentOrder<'_>) -> Result<ProviderPayment, PaymentError>;

    /// Reads a payment by the provider's id, with its refunds and charge-backs.
    async fn payment(&self, provider_id: &str) -> Result<ProviderPayment, PaymentError>;

    /// Finds the payment of an order among the customer's newest; `None` if it was never created. This recovers from a
    /// lost response, whatever has become of the customer's mandate since.
    async fn find_payment(&self, order: &PaymentId, customer_id: &str)
    -> Result<Option<ProviderPayment>, PaymentError>;

    /// Returns the state of the customer's mandate, which permits charges while the customer is absent.
    async fn mandate(&self, customer_id: &str) -> Result<MandateState, PaymentError>;

    /// Refunds all or part of a payment; repeated with the same id, returns the existing refund.
    async fn refund(&self, refund: &RefundOrder<'_>) -> Result<ProviderReversal, PaymentError>;
}

/// The provider of this installation; `None` if `billing.provider` is `none`.
pub type ConfiguredProvider = Option<Arc<dyn PaymentProvider>>;

/// The kind of a payment provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// Mollie.
    Mollie,
    /// Play money, for trials.
    Play,
}

impl ProviderKind {
    /// Returns the name under which the kind is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mollie => "mollie",
            Self::Play => "play",
        }
    }
}

/// A payment to be created at the provider.
#[derive(Debug)]
pub struct PaymentOrder<'a> {
    /// Our id of the payment: the idempotency key.
    pub id: &'a PaymentId,
    /// The provider's id of the customer.
    pub customer_id: &'a str,
    /// Whether the payer is present.
    pub sequence: PaymentSequence,
    /// The amount with VAT.
    pub total: Cents,
    /// The text on the payer's statement.
    pub description: &'a str,
    /// The page to which the payer returns.
    pub redirect_url: &'a Url,
    /// The URL to which the provider reports changes.
    pub webhook_url: &'a Url,
}

/// A payment at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPayment {
    /// The provider's id.
    pub id: String,
    /// Our id, which we gave to the provider; `None` if somebody else created the payment.
    pub order: Option<PaymentId>,
    /// The state; never [`PaymentState::Intended`].
    pub state: PaymentState,
    /// The amount with VAT.
    pub total: Cents,
    /// The payment method, such as `ideal`.
    pub method: Option<String>,
    /// The provider's reason for a failure, in its own words.
    pub failure: Option<String>,
    /// The page on which a payer who is present pays.
    pub checkout_url: Option<Url>,
    /// The refunds and charge-backs.
    pub reversals: Vec<ProviderReversal>,
}

/// A refund to be made by the provider.
#[derive(Debug)]
pub struct RefundOrder<'a> {
    /// Our id of the refund: the idempotency key.
    pub id: &'a ReversalId,
    /// The provider's id of the payment.
    pub payment_id: &'a str,
    /// The amount.
    pub total: Cents,
    /// The text on the payer's statement.
    pub description: &'a str,
}

/// A refund or a charge-back at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderReversal {
    /// The provider's id.
    pub id: String,
    /// Our id, if we requested it.
    pub order: Option<ReversalId>,
    /// Whether it is a refund or a charge-back.
    pub kind: ReversalKind,
    /// The amount.
    pub total: Cents,
    /// The state.
    pub state: ReversalState,
}

/// The state of a customer's permission to be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MandateState {
    /// There is no mandate, or it was withdrawn.
    Missing,
    /// The mandate is pending, for up to three days.
    Pending,
    /// The customer can be charged.
    Valid,
}

/// An error of a call to the provider.
#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    /// The provider is unreachable, overloaded or responds with something unexpected: the call can be retried, after
    /// the given pause if there is one.
    #[error("the payment provider does not answer: {reason}")]
    Unavailable {
        /// The reason, for the log.
        reason: String,
        /// The pause that the provider requests.
        retry_after: Option<Duration>,
    },
    /// The provider does not know the object of the call.
    #[error("the payment provider does not know it")]
    Unknown,
    /// The provider refuses; a retry would be refused as well.
    #[error("the payment provider refuses: {0}")]
    Refused(String),
}

/// Checks that invoices can name the seller as the law requires. A failed start is better than one after the first
/// payment.
fn check_seller(seller: &InvoiceSeller) -> anyhow::Result<()> {
    let is_known = seller.registration.as_deref().is_some_and(|number| !number.trim().is_empty());
    anyhow::ensure!(is_known, "billing.seller.registration must be the seller's number in its trade register");
    let number = seller.vat_number.as_ref();
    anyhow::ensure!(
        seller.country.vat_state().is_none_or(|state| number.is_some_and(|number| number.is_from(state))),
        "billing.seller.vat_number must be the seller's VAT number in {}, because VAT is charged",
        seller.country
    );
    anyhow::ensure!(!seller.name.trim().is_empty(), "billing.seller.name is empty");
    anyhow::ensure!(
        (1..=3).contains(&seller.address.len()),
        "billing.seller.address must have one to three lines above the postcode"
    );
    Ok(())
}

/// Creates the configured provider. Fails if its configuration is incomplete.
pub fn from_config(config: &Config, db: &PgPool, clock: &Clock) -> anyhow::Result<ConfiguredProvider> {
    let billing = &config.billing;
    anyhow::ensure!(
        billing.provider == BillingProvider::None || billing.seller.is_some(),
        "billing.seller must name the seller (name, address, postcode, city): plans can be paid here, and every invoice \
         says who sells"
    );
    if let Some(seller) = billing.seller.as_ref().filter(|_| billing.provider != BillingProvider::None) {
        check_seller(seller)?;
    }
    Ok(match billing.provider {
        BillingProvider::None => None,
        BillingProvider::Mollie => Some(Arc::new(mollie::MollieProvider::new(billing, clock.clone())?)),
        BillingProvider::Play => {
            tracing::warn!("billing.provider is \"play\": plans are paid with play money");
            Some(Arc::new(play::PlayProvider::new(db.clone(), ConsoleAddresses::new(&config.site), clock.clone())))
        }
    })
}
