//! Invoices, credit notes, and links to their documents.

use domain::{
    InvoiceId, Timestamp,
    billing::{
        Cents,
        invoice::{InvoiceKind, InvoiceStatus},
    },
};
use serde::{Deserialize, Serialize};

/// An invoice or a credit note.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invoice {
    /// The id.
    pub id: InvoiceId,
    /// Whether it is an invoice or a credit note.
    pub kind: InvoiceKind,
    /// The number. Each kind has its own series per year, without gaps.
    #[cfg_attr(feature = "openapi", schema(example = "2026-000001"))]
    pub number: String,
    /// The time at which it was issued.
    pub issued_at: Timestamp,
    /// The amount without VAT, in cents; negative on a credit note.
    pub net_cents: Cents,
    /// The VAT, in cents; negative on a credit note.
    pub vat_cents: Cents,
    /// The amount with VAT, in cents; negative on a credit note.
    pub total_cents: Cents,
    /// The currency: `EUR`.
    pub currency: String,
    /// The payment status. Invoices are issued when they are paid, so there are no unpaid ones.
    pub status: InvoiceStatus,
    /// Whether its PDF and XML can be fetched. They are created within minutes of the payment.
    pub has_document: bool,
}

/// A page of invoices and credit notes, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvoiceList {
    /// The invoices and credit notes of this page.
    pub invoices: Vec<Invoice>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The requested XML format.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct XmlQuery {
    /// The format: `cii` (the default, and the one embedded in the PDF) or `ubl`.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub format: Option<XmlFormat>,
}

/// An EN 16931 XML format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum XmlFormat {
    /// Cross Industry Invoice.
    #[default]
    Cii,
    /// UBL 2.1.
    Ubl,
}

/// A link to a document. Anyone who has the link can fetch the document without a token.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DocumentLink {
    /// The link.
    pub url: String,
    /// The time at which the link stops working.
    pub expires_at: Timestamp,
}
