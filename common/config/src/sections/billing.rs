//! `[billing]`: plans, payment and VAT.

use domain::{
    EmailAddress,
    billing::{Country, rates::VatRates, vat::VatNumber},
    plans::Plans,
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[billing]`: plans, payment and VAT.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Billing {
    /// The plans, by id; accounts without a subscription have the cheapest one. A table in the configuration replaces
    /// the built-in one entirely: `[billing.plans.free]` with `name`, `price_cents` and `limits`. Two of the limits
    /// bound a request to the AI gateway: `gateway_body_bytes` (1,024 to 33,554,432; 65,536 when absent) and
    /// `gateway_max_tokens` (1 to 1,000,000; 4,096 when absent).
    pub plans: Plans,
    /// How plans are paid: through `mollie`, with `play` money for trying svc out, or not at all (`none`, the default).
    pub provider: BillingProvider,
    /// The URL of Mollie's API, with or without its version (`/v2`).
    pub mollie_url: Url,
    /// The key for Mollie's API, `live_…` or `test_…`.
    pub mollie_api_key: Option<String>,
    /// The secret with which Mollie signs its webhooks. When absent, only unsigned ones are accepted, which contain
    /// only an id.
    pub mollie_webhook_secret: Option<String>,
    /// The REST API of the EU's VAT registry, VIES.
    pub vies_url: Url,
    /// Standard VAT rates in addition to the built-in ones, so that a state's new rate needs no release:
    /// `[[billing.vat_rates]]` with `country`, `from` (the first day, such as `"2027-01-01"`) and `percent`. In the
    /// environment, a list as JSON.
    pub vat_rates: VatRates,
    /// The seller, as shown on invoices. Required where real money is charged.
    pub seller: Option<InvoiceSeller>,
}

/// The payment provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BillingProvider {
    /// Mollie, for real money.
    Mollie,
    /// A built-in provider with play money.
    Play,
    /// No provider: plans cannot be paid.
    #[default]
    None,
}

/// The seller, as shown on invoices. A table; in the environment as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvoiceSeller {
    /// The company's name.
    pub name: String,
    /// Street and number, one line each.
    pub address: Vec<String>,
    /// The postcode.
    pub postcode: String,
    /// The city.
    pub city: String,
    /// The country; buyers in the same country are charged its VAT.
    #[serde(default = "Country::netherlands")]
    pub country: Country,
    /// The company's VAT number.
    pub vat_number: Option<VatNumber>,
    /// The company's number in the trade register.
    pub registration: Option<String>,
    /// The address for questions about invoices.
    pub email: Option<EmailAddress>,
}

impl Default for Billing {
    fn default() -> Self {
        Self {
            plans: Plans::default(),
            provider: BillingProvider::None,
            mollie_url: url("https://api.mollie.com"),
            mollie_api_key: None,
            mollie_webhook_secret: None,
            vies_url: url("https://ec.europa.eu/taxation_customs/vies/rest-api"),
            vat_rates: VatRates::default(),
            seller: None,
        }
    }
}
