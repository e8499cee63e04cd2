//! What an invoice says. A [`Draft`] is anybody's claim; an [`Invoice`] is a draft whose sums were proved, and the only thing that
//! becomes a document.
//!
//! Amounts are integer cents of a euro, rates hundredths of a per cent. There is no clock here and no database: every date is given.
//! Start with [`Draft`]; `proof.rs` holds the rules between its parts.

mod proof;
mod vat;

use std::ops::Deref;

use time::Date;

use crate::Country;
pub use proof::InvoiceError;
pub use vat::{Consultation, Treatment, VatCategory, VatRate, VatRateError, VatShare};

/// The currency of every document.
pub const CURRENCY: &str = "EUR";
/// Most lines that a document has.
pub const MAX_LINES: usize = 1000;
/// Most notes that a document has.
pub const MAX_NOTES: usize = 10;
/// Most lines of an address, without its postcode, city and country.
pub const MAX_ADDRESS_LINES: usize = 3;
/// Most characters of a name, a line of an address, a description.
pub const MAX_TEXT_CHARS: usize = 300;
/// Most characters of a note.
pub const MAX_NOTE_CHARS: usize = 1000;
/// Largest amount of a line and of a document, which the columns of the page hold.
pub const MAX_CENTS: i64 = 10_000_000_000;
/// Largest quantity of a line.
pub const MAX_QUANTITY: i64 = 1_000_000;

/// A document whose sums are proved: what it takes to [`render`](crate::render) one. It reads like its [`Draft`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice(Draft);

impl Invoice {
    /// Proves a draft: its lines add up to its net amount, the VAT of each rate is that of the lines of the rate, rounded half up
    /// once, net and VAT make the total, and the parties are such that the treatment is lawful. Text is cleaned of control characters.
    pub fn new(draft: Draft) -> Result<Self, InvoiceError> {
        proof::prove(draft).map(Self)
    }

    /// Returns what kind of document this is, as a title.
    pub fn title(&self) -> &'static str {
        match self.kind {
            InvoiceKind::Invoice => "Invoice",
            InvoiceKind::CreditNote { .. } => "Credit note",
        }
    }

    /// Returns whether the document takes an invoice back.
    pub fn is_credit_note(&self) -> bool {
        matches!(self.kind, InvoiceKind::CreditNote { .. })
    }

    /// Returns the amount that is still to be paid, or refunded.
    pub fn due_cents(&self) -> i64 {
        if self.payment.is_some() { 0 } else { self.totals.total_cents }
    }
}

impl Deref for Invoice {
    type Target = Draft;
    fn deref(&self) -> &Draft {
        &self.0
    }
}

/// What a document is to say. Its amounts are those of the books, which [`Invoice::new`] calculates again and compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Whether money is asked for or given back. Amounts of a credit note are positive, too.
    pub kind: InvoiceKind,
    /// Whether it is about a part of an invoice, whose VAT was split off its own: it may differ by less than one unit of the
    /// currency from what the rate makes of the part's net amount (EN 16931, BR-CO-17).
    pub is_part: bool,
    /// The document's number, without gaps in its series.
    pub number: String,
    /// The date of issue.
    pub issued: Date,
    /// The date at which VAT became due; `None` when it is the date of issue.
    pub tax_point: Option<Date>,
    /// The days in which the service is rendered.
    pub service: Period,
    /// Who sells.
    pub seller: Party,
    /// Who buys.
    pub buyer: Party,
    /// What the buyer knows the document by, such as an order number or the name of its account. Peppol demands one.
    pub buyer_reference: Option<String>,
    /// What is sold.
    pub lines: Vec<Line>,
    /// VAT by category and rate. [`VatShare::of`] calculates it from the lines.
    pub vat: Vec<VatShare>,
    /// The sums.
    pub totals: Totals,
    /// Why VAT is charged, or not.
    pub treatment: Treatment,
    /// How the document was paid, or refunded; `None` while it is not.
    pub payment: Option<Payment>,
    /// The name that stands as the logo.
    pub brand: String,
    /// Whether no money was moved: the document is plainly marked as not being an invoice.
    pub play_money: bool,
    /// What else is to be said, a paragraph each.
    pub notes: Vec<String>,
}

/// Whether a document asks for money or gives it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvoiceKind {
    /// An invoice.
    Invoice,
    /// The correction of an invoice.
    CreditNote {
        /// The number of the invoice that is corrected.
        of: String,
        /// Its date of issue.
        of_date: Date,
    },
}

/// The days from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
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
    /// Where the party is established.
    pub address: Address,
    /// The VAT number with its prefix, such as `NL123456789B01`.
    pub vat_number: Option<String>,
    /// The number in the register of companies, such as that of the Dutch chamber of commerce.
    pub registration_id: Option<String>,
    /// Where the party reads mail.
    pub email: Option<String>,
}

/// A postal address. All but the country may be empty: of a consumer often no more is known.
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

/// One thing that is sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub description: String,
    /// How many; negative when something is taken back.
    pub quantity: i64,
    /// The price of one, without VAT, never negative.
    pub unit_price_cents: i64,
    /// The price of all of them, without VAT.
    pub net_cents: i64,
    /// The VAT category of the line.
    pub category: VatCategory,
    /// The VAT rate of the line.
    pub rate: VatRate,
}

/// The sums of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// The sum of the lines.
    pub net_cents: i64,
    /// The VAT.
    pub vat_cents: i64,
    /// What is to be paid: net and VAT.
    pub total_cents: i64,
}

/// How a document was paid, or refunded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// By which means.
    pub method: PaymentMethod,
    /// On which day.
    pub on: Date,
    /// How the payment provider calls the payment.
    pub reference: String,
}

/// A means of payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentMethod {
    /// A credit or debit card.
    Card,
    /// A SEPA direct debit.
    DirectDebit,
    /// A bank transfer.
    BankTransfer,
    /// A transfer by iDEAL.
    Ideal,
    /// A transfer by Bancontact.
    Bancontact,
    /// A `PayPal` account.
    PayPal,
    /// Another one, by its name in a sentence.
    Other(String),
}

impl PaymentMethod {
    /// Returns the method's name as it stands in a sentence: "paid by card".
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
