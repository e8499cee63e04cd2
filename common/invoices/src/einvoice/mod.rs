//! The invoice in the terms of EN 16931. Comments give its numbers (BT, BG) where a field's name is not clear. `cii.rs`
//! and `ubl.rs` write the XML, each after checking the rules of its profile.

pub(crate) mod cii;
mod peppol;
pub(crate) mod ubl;

use en16931::{
    Date as Day, DocumentKind, DocumentReference, Identifier, Invoice as Semantic, InvoiceAmount, InvoiceNote,
    Percentage, Quantity, UnitPriceAmount, Validated,
    invoice::{
        Code, Delivery, DocumentTotals, InvoiceLine, Party as Trader, PaymentInstructions, Period, PostalAddress,
        PrecedingInvoice, PriceDetails, VatBreakdown,
    },
    validation::profile::ProfileMarker,
};
use en16931_formats::Syntax;
use time::Date;

use crate::{
    Invoice,
    model::{
        CURRENCY, DraftLine, InvoiceDraft, InvoiceKind, InvoicePayment, Party, PaymentMethod, VatCategory, VatRate,
        VatShare, VatTreatment,
    },
};

/// The reason an invoice could not be written as XML.
#[derive(Debug, thiserror::Error)]
pub enum EinvoiceError {
    /// The invoice breaks the standard's own rules.
    #[error("the invoice breaks the rules of {profile}: {rules}")]
    Rules {
        /// The profile.
        profile: &'static str,
        /// The broken rules, and where they are broken.
        rules: String,
    },
    /// The syntax cannot represent a part of the invoice.
    #[error("the XML would lose a part of the invoice: {0}")]
    Loss(String),
    /// The standard cannot represent a date or a number.
    #[error("the standard has no form for {0}")]
    Form(&'static str),
}

/// The unit "piece" in UN/ECE recommendation 20.
const UNIT: &str = "C62";
/// The ISO 6523 scheme of the Dutch company register.
const KVK: &str = "0106";
/// The electronic address scheme of email.
const EMAIL: &str = "EM";

/// Writes an invoice that was validated against its profile.
fn write<P: ProfileMarker>(proof: &Validated<P>, syntax: Syntax) -> Result<String, EinvoiceError> {
    let written = en16931_formats::write(proof, syntax);
    match written.entries.iter().find(|entry| entry.is_loss()) {
        Some(lost) => Err(EinvoiceError::Loss(lost.to_string())),
        None => Ok(written.xml),
    }
}

/// Validates an invoice against a profile, whose name it carries from then on.
fn prove<P: ProfileMarker>(mut invoice: Semantic) -> Result<Validated<P>, EinvoiceError> {
    invoice.specification_id = Some(P::PROFILE.specification_id.to_owned());
    Validated::new(invoice).map_err(|rejected| {
        let rules: Vec<String> = rejected.report().fatal().map(ToString::to_string).collect();
        EinvoiceError::Rules { profile: P::PROFILE.id, rules: rules.join("; ") }
    })
}

fn semantic(invoice: &Invoice) -> Result<Semantic, EinvoiceError> {
    let untaxed = invoice.treatment == VatTreatment::OutsideScope;
    let mut it = Semantic::default();
    (it.kind, it.type_code) = match &invoice.kind {
        InvoiceKind::Invoice => (DocumentKind::Invoice, Some(Code::new("380"))),
        InvoiceKind::CreditNote { of, of_date } => {
            let reference = DocumentReference::new(of);
            it.preceding_invoices.push(PrecedingInvoice { reference, issue_date: Some(day(*of_date)?) });
            (DocumentKind::CreditNote, Some(Code::new("381")))
        }
    };
    it.number = Some(invoice.number.clone());
    it.issue_date = Some(day(invoice.issued)?);
    it.currency = Some(Code::new(CURRENCY));
    it.vat_point_date = invoice.tax_point.map(day).transpose()?;
    it.invoicing_period = Some(Period { start: Some(day(invoice.service.from)?), end: Some(day(invoice.service.to)?) });
    // CII always has an element for delivery, which must not be empty.
    it.delivery = Some(Delivery { date: Some(day(invoice.service.to)?), ..Delivery::default() });
    it.buyer_reference.clone_from(&invoice.buyer_reference);
    it.notes = notes(invoice).into_iter().map(InvoiceNote::new).collect();
    it.seller = trader(&invoice.seller, untaxed);
    it.buyer = trader(&invoice.buyer, untaxed);
    it.lines = (1_usize..).zip(&invoice.lines).map(|(number, sold)| line(number, sold)).collect::<Result<_, _>>()?;
    it.vat_breakdown = invoice.vat.iter().map(breakdown).collect::<Result<_, _>>()?;
    it.totals = totals(invoice);
    it.payment = invoice.payment.as_ref().map(payment);
    if it.totals.due.is_positive() {
        let terms = if invoice.is_credit_note() {
            "Refunded by the means of payment of the invoice."
        } else {
            "Payable on receipt."
        };
        it.payment_terms = Some(terms.to_owned());
    }
    Ok(it)
}

/// Returns the parts of the page for which the XML has no field.
fn notes(invoice: &InvoiceDraft) -> Vec<String> {
    let mut notes = Vec::new();
    if invoice.play_money {
        notes.push(crate::pdf::PLAY_MONEY.to_owned());
    }
    notes.extend(invoice.treatment.note());
    if let VatTreatment::ReverseCharge { consultation: Some(consultation) } = &invoice.treatment {
        notes.push(format!("VIES consultation number {}, {}.", consultation.number, consultation.on));
    }
    notes.extend(invoice.notes.iter().cloned());
    notes
}

/// Builds BG-4 or BG-7. Rule BR-O-02 forbids VAT numbers where nothing is subject to VAT.
fn trader(party: &Party, untaxed: bool) -> Trader {
    let address = &party.address;
    let mut lines = address.lines.iter().cloned();
    let filled = |text: &String| (!text.is_empty()).then(|| text.clone());
    let mut trader = Trader::new(
        party.name.clone(),
        PostalAddress {
            line1: lines.next(),
            line2: lines.next(),
            line3: lines.next(),
            city: filled(&address.city),
            post_code: filled(&address.postcode),
            country: Some(Code::new(address.country.code())),
            ..PostalAddress::default()
        },
    );
    trader.vat_identifier = party.vat_number.clone().filter(|_| !untaxed);
    trader.legal_registration = match (peppol::kvk(party), &party.registration_id) {
        (Some(number), _) => Some(Identifier::schemed(number, KVK)),
        (None, number) => number.as_ref().map(Identifier::new),
    };
    trader.electronic_address = party.email.as_ref().map(|email| Identifier::schemed(email, EMAIL));
    trader
}

/// Builds BG-25.
fn line(number: usize, line: &DraftLine) -> Result<InvoiceLine, EinvoiceError> {
    let quantity: Quantity = line.quantity.to_string().parse().map_err(|_| EinvoiceError::Form("a quantity"))?;
    let net = InvoiceAmount::from_minor_units(line.net_cents);
    let net_price = UnitPriceAmount::new(InvoiceAmount::from_minor_units(line.unit_price_cents).into_decimal());
    let rate = rate(line.category, line.rate)?;
    let price = PriceDetails { net_price, ..PriceDetails::default() };
    Ok(InvoiceLine::new(number.to_string(), &line.description, quantity, UNIT, net, line.category.code(), rate)
        .with_price(price))
}

/// Builds BG-23.
fn breakdown(share: &VatShare) -> Result<VatBreakdown, EinvoiceError> {
    let (reason, code) = match share.category {
        VatCategory::Standard | VatCategory::Zero => (None, None),
        VatCategory::ReverseCharge => (Some("VAT reverse charged"), Some("VATEX-EU-AE")),
        VatCategory::OutsideScope => (Some("Not subject to VAT"), Some("VATEX-EU-O")),
    };
    Ok(VatBreakdown {
        taxable_amount: InvoiceAmount::from_minor_units(share.net_cents),
        tax_amount: InvoiceAmount::from_minor_units(share.vat_cents),
        category: Code::new(share.category.code()),
        rate: rate(share.category, share.rate)?,
        exemption_reason: reason.map(str::to_owned),
        exemption_reason_code: code.map(Code::new),
    })
}

/// Builds BG-22.
fn totals(invoice: &Invoice) -> DocumentTotals {
    let totals = &invoice.totals;
    let net = InvoiceAmount::from_minor_units(totals.net_cents);
    DocumentTotals {
        line_total: net,
        taxable_total: net,
        vat_total: Some(InvoiceAmount::from_minor_units(totals.vat_cents)),
        gross_total: InvoiceAmount::from_minor_units(totals.total_cents),
        paid: Some(InvoiceAmount::from_minor_units(totals.total_cents - invoice.due_cents())),
        due: InvoiceAmount::from_minor_units(invoice.due_cents()),
        ..DocumentTotals::default()
    }
}

/// Builds BG-16, with codes that the Netherlands allow between Dutch parties: bank card, or standing agreement.
fn payment(payment: &InvoicePayment) -> PaymentInstructions {
    let code = if payment.method == PaymentMethod::Card { "48" } else { "57" };
    PaymentInstructions {
        means_code: Some(Code::new(code)),
        means_text: Some(payment.method.name().to_owned()),
        remittance_information: Some(payment.reference.clone()),
        ..PaymentInstructions::default()
    }
}

/// Builds BT-119 and BT-152. Category `O` has no rate.
fn rate(category: VatCategory, rate: VatRate) -> Result<Option<Percentage>, EinvoiceError> {
    if category == VatCategory::OutsideScope {
        return Ok(None);
    }
    rate.to_string().parse().map(Some).map_err(|_| EinvoiceError::Form("a VAT rate"))
}

fn day(date: Date) -> Result<Day, EinvoiceError> {
    Day::new(date.year(), date.month().into(), date.day()).map_err(|_| EinvoiceError::Form("a date"))
}
