//! The payment provider. [`PaymentProvider`] is the port, which each kind of provider implements: [`mollie`] for money,
//! [`play`] for trying the service out.
//!
//! A provider moves money and tells what became of it; who owes what, and when, is decided in `billing`.

pub mod mollie;
pub mod play;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use config::{Config, Provider, Seller};
use domain::{
    Account, Clock, EmailAddress, PaymentId, ReversalId,
    billing::{
        Cents,
        payment::{PaymentState, Reversal, ReversalState, Sequence},
    },
};
use sqlx::PgPool;
use url::Url;

use crate::addresses::Console;

/// A provider that charges customers. Every call may be made again: what was made before is not made twice.
#[async_trait]
pub trait PaymentProvider: Send + Sync {
    /// Returns the kind of provider, under which its ids are kept.
    fn kind(&self) -> ProviderKind;

    /// Makes the account a customer, and returns the customer's id.
    async fn create_customer(
        &self,
        account: &Account,
        name: &str,
        email: Option<&EmailAddress>,
    ) -> Result<String, PaymentError>;

    /// Makes a payment; asked again with the same order, returns the payment that was made before.
    async fn create_payment(&self, order: &PaymentOrder<'_>) -> Result<ProviderPayment, PaymentError>;

    /// Reads a payment by the provider's id, with what went back of it.
    async fn payment(&self, provider_id: &str) -> Result<ProviderPayment, PaymentError>;

    /// Finds the payment that was made for an order, among the customer's newest; `None` when it was never made. An answer
    /// that was lost is found so, whatever has become of the customer's mandate since.
    async fn find_payment(&self, order: &PaymentId, customer_id: &str)
    -> Result<Option<ProviderPayment>, PaymentError>;

    /// Returns whether the customer can be charged without being present.
    async fn mandate(&self, customer_id: &str) -> Result<Mandate, PaymentError>;

    /// Gives back a part of a payment, or all of it; asked again with the same id, returns the refund that was made before.
    async fn refund(&self, refund: &RefundOrder<'_>) -> Result<ProviderReversal, PaymentError>;
}

/// The provider of this installation; `None` when `billing.provider` is `none`.
pub type Payments = Option<Arc<dyn PaymentProvider>>;

/// The kind of a payment provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// Mollie.
    Mollie,
    /// Play money.
    Play,
}

impl ProviderKind {
    /// Returns the word under which the kind is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mollie => "mollie",
            Self::Play => "play",
        }
    }
}

/// A payment that the provider is to make.
#[derive(Debug)]
pub struct PaymentOrder<'a> {
    /// Our id of the payment: the key by which a repeated order is recognized.
    pub id: &'a PaymentId,
    /// The provider's id of the customer.
    pub customer_id: &'a str,
    /// Whether the payer is present.
    pub sequence: Sequence,
    /// The amount, with VAT.
    pub total: Cents,
    /// The text on the payer's statement.
    pub description: &'a str,
    /// The page that the payer comes back to.
    pub redirect_url: &'a Url,
    /// The address at which the provider tells of changes.
    pub webhook_url: &'a Url,
}

/// A payment as the provider has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPayment {
    /// The provider's id.
    pub id: String,
    /// Our id, which the provider was given; `None` when somebody else made the payment.
    pub order: Option<PaymentId>,
    /// The state; never [`PaymentState::Intended`].
    pub state: PaymentState,
    /// The amount, with VAT.
    pub total: Cents,
    /// The way it is paid, such as `ideal`.
    pub method: Option<String>,
    /// The provider's reason for a refusal, in its own words.
    pub failure: Option<String>,
    /// The page on which a payer who is present pays.
    pub checkout_url: Option<Url>,
    /// The refunds and charge-backs.
    pub reversals: Vec<ProviderReversal>,
}

/// A refund that the provider is to make.
#[derive(Debug)]
pub struct RefundOrder<'a> {
    /// Our id of the refund: the key by which a repeated order is recognized.
    pub id: &'a ReversalId,
    /// The provider's id of the payment.
    pub payment_id: &'a str,
    /// The amount.
    pub total: Cents,
    /// The text on the payer's statement.
    pub description: &'a str,
}

/// A refund or a charge-back as the provider has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderReversal {
    /// The provider's id.
    pub id: String,
    /// Our id, if we asked for it.
    pub order: Option<ReversalId>,
    /// A refund, or a charge-back.
    pub kind: Reversal,
    /// The amount.
    pub total: Cents,
    /// The state.
    pub state: ReversalState,
}

/// A customer's permission to be charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mandate {
    /// There is none, or it was withdrawn.
    Missing,
    /// It is being set up, which takes up to three days.
    Pending,
    /// The customer can be charged.
    Valid,
}

/// The failure of a call to the provider.
#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    /// The provider is away, overloaded or answers nonsense: the call can be made again, not before the pause if one is named.
    #[error("the payment provider does not answer: {reason}")]
    Unavailable {
        /// The reason, for the log.
        reason: String,
        /// The pause that the provider asks for.
        retry_after: Option<Duration>,
    },
    /// The provider does not know what was asked for.
    #[error("the payment provider does not know it")]
    Unknown,
    /// The provider will not do it, however often it is asked.
    #[error("the payment provider refuses: {0}")]
    Refused(String),
}

/// Fails when an invoice could not name the seller as the law wants: better at the start than after the first payment.
fn check(seller: &Seller) -> anyhow::Result<()> {
    let is_known = seller.registration.as_deref().is_some_and(|number| !number.trim().is_empty());
    anyhow::ensure!(is_known, "billing.seller.registration must be the seller's number in its trade register");
    let number = seller.vat_number.as_ref();
    anyhow::ensure!(
        seller.country.vat_state().is_none_or(|state| number.is_some_and(|number| number.is_of(state))),
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

/// Makes the configured provider. Fails when the configuration lacks what a provider needs.
pub fn from_config(config: &Config, db: &PgPool, clock: &Clock) -> anyhow::Result<Payments> {
    let billing = &config.billing;
    anyhow::ensure!(
        billing.provider == Provider::None || billing.seller.is_some(),
        "billing.seller must name the seller (name, address, postcode, city): plans can be paid here, and every invoice \
         says who sells"
    );
    if let Some(seller) = billing.seller.as_ref().filter(|_| billing.provider != Provider::None) {
        check(seller)?;
    }
    Ok(match billing.provider {
        Provider::None => None,
        Provider::Mollie => Some(Arc::new(mollie::Mollie::new(billing, clock.clone())?)),
        Provider::Play => {
            tracing::warn!("billing.provider is \"play\": plans are paid with play money");
            Some(Arc::new(play::Play::new(db.clone(), Console::new(&config.site), clock.clone())))
        }
    })
}
