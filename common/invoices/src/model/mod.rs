//! The content of an invoice. A [`InvoiceDraft`] is an unchecked claim; an [`Invoice`] is a draft with proved sums, and only
//! invoices become documents.
//!
//! Amounts are integer cents of a euro, rates hundredths of a per cent. All dates are given: there is no clock and no
//! database. Start with [`InvoiceDraft`]; `proof.rs` holds the rules between its parts.

mod proof;
mod vat;

use std::ops::Deref;

use time::Date;

use crate::Country;
pub use proof::InvoiceError;
pub use vat::{VatCategory, VatRate, VatRateError, VatShare, VatTreatment, ViesConsultation};

/// The currency of every document.
pub const CURRENCY: &str = "EUR";
/// The maximum number of lines of a document.
pub const MAX_LINES: usize = 1000;
/// The maximum number of notes of a document.
pub const MAX_NOTES: usize = 10;
/// The maximum number of lines of an address, without its postcode, city and country.
pub const MAX_ADDRESS_LINES: usize = 3;
/// The maximum number of characters of a name, an address line or a description.
pub const MAX_TEXT_CHARS: usize = 300;
/// The maximum number of characters of a note.
pub const MAX_NOTE_CHARS: usize = 1000;
/// The maximum amount of a line and of a document, which fits the columns of the page.
pub const MAX_CENTS: i64 = 10_000_000_000;
/// The maximum quantity of a line.
pub const MAX_QUANTITY: i64 = 1_000_000;

/// A document with proved sums, ready to [`render`](crate::render). Dereferences to its [`InvoiceDraft`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice(InvoiceDraft);

impl Invoice {
    /// Proves a draft, and removes control characters from its text. Its lines must add up to its net amount, the VAT
    /// of each rate must be that of its lines, rounded half up once, net and VAT must add up to the total, and the
    /// parties must make the treatment lawful.
    pub fn new(draft: InvoiceDraft) -> Result<Self, InvoiceError> {
        proof::prove(draft).map(Self)
    }

    /// Returns the kind of document, as a title.
    pub fn title(&self) -> &'static str {
        match self.kind {
            InvoiceKind::Invoice => "Invoice",
            InvoiceKind::CreditNote { .. } => "Credit note",
        }
    }

    /// Returns whether the document reverses an invoice.
    pub fn is_credit_note(&self) -> bool {
        matches!(self.kind, InvoiceKind::CreditNote { .. })
    }

    /// Returns the amount still to be paid or refunded.
    pub fn due_cents(&self) -> i64 {
        if self.payment.is_some() { 0 } else { self.totals.total_cents }
    }
}

impl Deref for Invoice {
    type Target = InvoiceDraft;
    fn deref(&self) -> &InvoiceDraft {
        &self.0
    }
}

/// The content of a document. Its amounts are those of the ledger, which [`Invoice::new`] calculates again and
/// compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoiceDraft {
    /// The kind of document. The amounts of a credit note are positive, too.
    pub kind: InvoiceKind,
    /// Whether it covers a part of an invoice, with a part of that invoice's VAT. Its VAT may then differ from the rate
    /// times its net amount, by less than one unit of the currency (EN 16931, BR-CO-17).
    pub is_part: bool,
    /// The document's number, without gaps in its series.
    pub number: String,
    /// The date of issue.
    pub issued: Date,
    /// The date VAT became due; `None` if it is the date of issue.
    pub tax_point: Option<Date>,
    /// The period of service.
    pub service: ServicePeriod,
    /// The seller.
    pub seller: Party,
    /// The buyer.
    pub buyer: Party,
    /// The buyer's reference, such as an order number or the name of its account. Peppol requires one.
    pub buyer_reference: Option<String>,
    /// The lines.
    pub lines: Vec<DraftLine>,
    /// VAT by category and rate. [`VatShare::from_lines`] calculates it from the lines.
    pub vat: Vec<VatShare>,
    /// The sums.
    pub totals: InvoiceTotals,
    /// The reason VAT is charged or not.
    pub treatment: VatTreatment,
    /// The payment or refund; `None` while the document is unpaid.
    pub payment: Option<InvoicePayment>,
    /// The brand name, shown as the logo.
    pub brand: String,
    /// Whether no real money moves: the document is then plainly marked as not being an invoice.
    pub play_money: bool,
    /// Further notes, one paragraph each.
    pub notes: Vec<String>,
}

/// The kind of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvoiceKind {
    /// An invoice.
    Invoice,
    /// A correction of an invoice.
    CreditNote {
        /// The number of the corrected invoice.
        of: String,
        /// The date of issue of the corrected invoice.
        of_date: Date,
    },
}

/// A range of days, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServicePeriod {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
}

/// A seller or a buyer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The name of the company or the person.
    pub name: String,
    /// The address of establishment.
    pub address: Address,
    /// The VAT number with its prefix, such as `NL123456789B01`.
    pub vat_number: Option<String>,
    /// The number in the company register, such as that of the Dutch chamber of commerce.
    pub registration_id: Option<String>,
    /// The email address.
    pub email: Option<String>,
}

/// A postal address. Everything but the country may be empty, because often no more is known of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Street and number, building, department.
    pub lines: Vec<String>,
    /// The postcode.
    pub postcode: String,
    /// The city.
    pub city: String,
    /// The country.
    pub country: Country,
}

/// A line of a document: one item that is sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftLine {
    /// The description of the item.
    pub description: String,
    /// The quantity; negative for returned items.
    pub quantity: i64,
    /// The price of one item without VAT, never negative.
    pub unit_price_cents: i64,
    /// The price of all items without VAT.
    pub net_cents: i64,
    /// The VAT category.
    pub category: VatCategory,
    /// The VAT rate.
    pub rate: VatRate,
}

/// The sums of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvoiceTotals {
    /// The sum of the lines.
    pub net_cents: i64,
    /// The VAT.
    pub vat_cents: i64,
    /// The payable amount: net plus VAT.
    pub total_cents: i64,
}

/// The payment or refund of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoicePayment {
    /// The method.
    pub method: PaymentMethod,
    /// The date.
    pub on: Date,
    /// The payment provider's identifier of the payment.
    pub reference: String,
}

/// A payment method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentMethod {
    /// A credit or debit card.
    Card,
    /// A SEPA direct debit.
    DirectDebit,
    /// A bank transfer.
    BankTransfer,
    /// An iDEAL transfer.
    Ideal,
    /// A Bancontact transfer.
    Bancontact,
    /// A `PayPal` account.
    PayPal,
    /// Another method, by its name in a sentence.
    Other(String),
}

impl PaymentMethod {
    /// Returns the method's name as used in a sentence: "paid by card".
    pub fn name(&self) -> &str {
        match self {
            Self::Card => "card",
            Self::DirectDebit => "SEPA direct debit",
            Self::BankTransfer => "bank transfer",
            Self::Ideal => "iDEAL",
            Self::Bancontact => "Bancontact",
            Self::PayPal => "PayPal",
            Self::Other(name) => name,
        }
    }
}
