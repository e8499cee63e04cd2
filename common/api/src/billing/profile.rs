//! `/billing/profile` and `/orgs/:name/billing/profile`.

use domain::billing::{
    Country,
    details::{Address, InvoiceLine},
    vat::VatNumber,
};
use serde::{Deserialize, Serialize};

/// The details that invoices carry.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BillingProfile {
    /// The name that invoices are made out to.
    pub name: InvoiceLine,
    /// The country, which decides over the VAT.
    pub country: Country,
    /// The EU VAT number.
    pub vat_number: Option<VatNumber>,
    /// Whether the EU's VAT registry knows the number. Null without a number, and while the registry has not answered: it is
    /// asked again, and until then VAT is charged.
    pub vat_valid: Option<bool>,
    /// The postal address.
    pub address: Option<Address>,
}

/// The request to store the details that invoices carry. It replaces those stored before: a field that is left out is removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SaveBillingProfile {
    /// The name that invoices are made out to: 1 to 100 characters.
    pub name: InvoiceLine,
    /// The country, by its two-letter code of ISO 3166.
    pub country: Country,
    /// The EU VAT number, with its prefix; of the same country.
    #[serde(default)]
    pub vat_number: Option<VatNumber>,
    /// The postal address.
    #[serde(default)]
    pub address: Option<Address>,
}
