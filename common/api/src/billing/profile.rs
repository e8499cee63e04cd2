//! `/billing/profile` and `/orgs/:name/billing/profile`.

use domain::billing::{
    Country,
    details::{Address, InvoiceLine},
    vat::VatNumber,
};
use serde::{Deserialize, Serialize};

/// The details printed on invoices.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BillingProfile {
    /// The name that invoices are made out to.
    pub name: InvoiceLine,
    /// The country, which determines the VAT.
    pub country: Country,
    /// The EU VAT number.
    pub vat_number: Option<VatNumber>,
    /// Whether the EU's VAT registry knows the number. Null if there is no number, or while the registry has not
    /// answered; the check is then repeated, and VAT is charged in the meantime.
    pub vat_valid: Option<bool>,
    /// The postal address.
    pub address: Option<Address>,
}

/// The request to store the details printed on invoices. It replaces all of them: an absent field is removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SaveBillingProfile {
    /// The name that invoices are made out to: 1 to 100 characters.
    pub name: InvoiceLine,
    /// The country, as a two-letter ISO 3166 code.
    pub country: Country,
    /// The EU VAT number, with its prefix; it must belong to the same country.
    #[serde(default)]
    pub vat_number: Option<VatNumber>,
    /// The postal address.
    #[serde(default)]
    pub address: Option<Address>,
}
