//! `[billing]`: plans, payment, VAT.

use domain::{
    EmailAddress,
    billing::{Country, rates::Rates, vat::VatNumber},
    plans::Plans,
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[billing]`: plans, payment, VAT.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Billing {
    /// The plans, by id; the cheapest is that of accounts without a subscription. Written in the configuration, the table
    /// replaces the shipped one whole: `[billing.plans.free]` with `name`, `price_cents` and `limits`. Of these, `gateway_body_bytes`
    /// (1,024 to 33,554,432; 65,536 when absent) and `gateway_max_tokens` (1 to 1,000,000; 4,096 when absent) bound a request to the AI
    /// gateway.
    pub plans: Plans,
    /// The way in which plans are paid: through `mollie`, with `play` money, which is for trying the service out, or not
    /// at all (`none`, the default).
    pub provider: Provider,
    /// Mollie's API, with or without its version (`/v2`).
    pub mollie_url: Url,
    /// The key for Mollie's API, `live_…` or `test_…`.
    pub mollie_api_key: Option<String>,
    /// The secret with which Mollie signs its webhooks; only the unsigned ones, which say nothing but an id, are taken
    /// when absent.
    pub mollie_webhook_secret: Option<String>,
    /// The REST API of the EU's VAT registry, VIES.
    pub vies_url: Url,
    /// Standard rates of VAT beside the shipped ones, so that a state's new rate needs no release: `[[billing.vat_rates]]` with
    /// `country`, `from` (the first day, such as `"2027-01-01"`) and `percent`. In the environment a list as JSON.
    pub vat_rates: Rates,
    /// The seller, as invoices name it. Needed where money moves.
    pub seller: Option<Seller>,
}

/// The payment provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Mollie, for real money.
    Mollie,
    /// The platform's own, with play money.
    Play,
    /// Nobody: plans cannot be paid.
    #[default]
    None,
}

/// The seller, as invoices name it. A table; in the environment as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seller {
    /// The company's name.
    pub name: String,
    /// Street and number, a line each.
    pub address: Vec<String>,
    /// The postcode.
    pub postcode: String,
    /// The city.
    pub city: String,
    /// The country; its VAT is charged to buyers of the same.
    #[serde(default = "Country::netherlands")]
    pub country: Country,
    /// The company's VAT number.
    pub vat_number: Option<VatNumber>,
    /// The company's number in its trade register.
    pub registration: Option<String>,
    /// The address for questions about invoices.
    pub email: Option<EmailAddress>,
}

impl Default for Billing {
    fn default() -> Self {
        Self {
            plans: Plans::default(),
            provider: Provider::None,
            mollie_url: url("https://api.mollie.com"),
            mollie_api_key: None,
            mollie_webhook_secret: None,
            vies_url: url("https://ec.europa.eu/taxation_customs/vies/rest-api"),
            vat_rates: Rates::default(),
            seller: None,
        }
    }
}
