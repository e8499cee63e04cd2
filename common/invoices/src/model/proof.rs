//! The rules between the parts of a draft. An error names the part, the expected value and the actual one.

use std::fmt;

use super::{
    Address, DraftLine, InvoiceDraft, InvoiceKind, MAX_ADDRESS_LINES, MAX_CENTS, MAX_LINES, MAX_NOTE_CHARS, MAX_NOTES,
    MAX_QUANTITY, MAX_TEXT_CHARS, Party, PaymentMethod, VatRate, VatShare, VatTreatment,
};
use crate::text::clean;

/// The reason a draft is not a valid invoice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvoiceError {
    /// A required text is empty.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A text is too long for the page.
    #[error("{field} is longer than {max} characters")]
    TooLong {
        /// The name of the text.
        field: &'static str,
        /// The maximum length.
        max: usize,
    },
    /// There are too few or too many of something.
    #[error("{what} must be {min} to {max}, not {found}")]
    Count {
        /// The name of the counted things.
        what: &'static str,
        /// The minimum number.
        min: usize,
        /// The maximum number.
        max: usize,
        /// The actual number.
        found: usize,
    },
    /// An amount or a quantity is out of bounds.
    #[error("{0} is out of bounds")]
    OutOfBounds(ProvedAmount),
    /// An amount does not follow from the others.
    #[error("{what} is {stated} cents, but must be {proved}")]
    Sum {
        /// The wrong amount.
        what: ProvedAmount,
        /// The amount that follows from the lines.
        proved: i64,
        /// The amount in the draft.
        stated: i64,
    },
    /// The VAT by rate does not follow from the lines.
    #[error("VAT by rate is {stated:?}, but the lines make it {proved:?}")]
    VatShares {
        /// The VAT that follows from the lines.
        proved: Vec<VatShare>,
        /// The VAT in the draft.
        stated: Vec<VatShare>,
    },
    /// The rate or category of a line does not match the treatment.
    #[error("line {line}: its VAT category or rate is not one of the invoice's VAT treatment")]
    LineTreatment {
        /// The line's number, starting at 1.
        line: usize,
    },
    /// The treatment is unlawful between these parties.
    #[error("{0}")]
    Treatment(&'static str),
    /// The last day of service is before the first.
    #[error("the period of service ends before it begins")]
    Period,
}

/// The difference, in cents, that the VAT of a part must stay below.
const PART_TOLERANCE: u64 = 100;

/// A proved amount, as named in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvedAmount {
    /// The net amount of a line, by its number starting at 1.
    Line(usize),
    /// The net amount of the document.
    Net,
    /// The VAT of the document.
    Vat,
    /// The net amount or the VAT of one rate.
    VatShare,
    /// The total of the document.
    Total,
}

impl fmt::Display for ProvedAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Net => f.write_str("the net amount"),
            Self::Vat => f.write_str("the VAT"),
            Self::VatShare => f.write_str("the amount of a VAT rate"),
            Self::Total => f.write_str("the total"),
        }
    }
}

impl ProvedAmount {
    /// Adds up amounts, whose sum must be in bounds.
    pub(super) fn sum(self, cents: impl IntoIterator<Item = i64>) -> Result<i64, InvoiceError> {
        let sum = cents.into_iter().try_fold(0_i64, i64::checked_add);
        sum.filter(|sum| sum.abs() <= MAX_CENTS).ok_or(InvoiceError::OutOfBounds(self))
    }

    fn must_be(self, proved: i64, stated: i64) -> Result<(), InvoiceError> {
        if proved == stated { Ok(()) } else { Err(InvoiceError::Sum { what: self, proved, stated }) }
    }
}

/// Returns the draft with cleaned texts, if every rule holds.
pub(super) fn prove(mut draft: InvoiceDraft) -> Result<InvoiceDraft, InvoiceError> {
    clean_texts(&mut draft)?;
    if draft.service.to < draft.service.from {
        return Err(InvoiceError::Period);
    }
    prove_treatment(&draft)?;
    prove_sums(&draft)?;
    Ok(draft)
}

fn prove_sums(draft: &InvoiceDraft) -> Result<(), InvoiceError> {
    count("lines", 1, MAX_LINES, draft.lines.len())?;
    for (number, line) in (1..).zip(&draft.lines) {
        let what = ProvedAmount::Line(number);
        let in_bounds = (0..=MAX_CENTS).contains(&line.unit_price_cents)
            && (-MAX_QUANTITY..=MAX_QUANTITY).contains(&line.quantity)
            && line.net_cents.checked_abs().is_some_and(|net| net <= MAX_CENTS);
        let product = line.quantity.checked_mul(line.unit_price_cents);
        let product = product.filter(|_| in_bounds).ok_or(InvoiceError::OutOfBounds(what))?;
        what.must_be(product, line.net_cents)?;
    }
    let net = ProvedAmount::Net.sum(draft.lines.iter().map(|line| line.net_cents))?;
    ProvedAmount::Net.must_be(net, draft.totals.net_cents)?;
    let mut stated = draft.vat.clone();
    stated.sort_by(|a, b| b.rate.cmp(&a.rate).then(a.category.cmp(&b.category)));
    let proved = VatShare::from_lines(&draft.lines)?;
    let agrees = |(proved, stated): (&VatShare, &VatShare)| {
        let may_differ = draft.is_part && proved.rate != VatRate::ZERO;
        let is_close = proved.vat_cents.abs_diff(stated.vat_cents) < PART_TOLERANCE;
        VatShare { vat_cents: stated.vat_cents, ..*proved } == *stated
            && (proved.vat_cents == stated.vat_cents || may_differ && is_close)
    };
    if proved.len() != stated.len() || !proved.iter().zip(&stated).all(agrees) {
        return Err(InvoiceError::VatShares { proved, stated });
    }
    let vat = ProvedAmount::Vat.sum(stated.iter().map(|share| share.vat_cents))?;
    ProvedAmount::Vat.must_be(vat, draft.totals.vat_cents)?;
    let total = ProvedAmount::Total.sum([net, vat])?;
    ProvedAmount::Total.must_be(total, draft.totals.total_cents)?;
    // A negative total belongs on a credit note, whose amounts are positive.
    if total < 0 { Err(InvoiceError::OutOfBounds(ProvedAmount::Total)) } else { Ok(()) }
}

fn prove_treatment(draft: &InvoiceDraft) -> Result<(), InvoiceError> {
    let fits = |line: &DraftLine| {
        let untaxed = matches!(draft.treatment, VatTreatment::ReverseCharge { .. } | VatTreatment::OutsideScope);
        line.category == draft.treatment.category(line.rate) && !(untaxed && line.rate != VatRate::ZERO)
    };
    if let Some(at) = draft.lines.iter().position(|line| !fits(line)) {
        return Err(InvoiceError::LineTreatment { line: at + 1 });
    }
    let prefix = |party: &Party| party.vat_number.as_ref().map(|number| number.chars().take(2).collect::<String>());
    match &draft.treatment {
        VatTreatment::Standard | VatTreatment::ConsumerOfAnotherState { .. } if draft.seller.vat_number.is_none() => {
            Err(InvoiceError::Treatment("VAT is charged by sellers that have a VAT number"))
        }
        VatTreatment::ReverseCharge { .. } => match (prefix(&draft.seller), prefix(&draft.buyer)) {
            (Some(seller), Some(buyer)) if seller != buyer => Ok(()),
            (Some(_), Some(_)) => Err(InvoiceError::Treatment("VAT is reverse charged between two member states")),
            _ => Err(InvoiceError::Treatment("VAT is reverse charged when seller and buyer have a VAT number")),
        },
        VatTreatment::OutsideScope if draft.seller.registration_id.is_none() => {
            Err(InvoiceError::Treatment("a seller outside of the scope of VAT is known by a registration number"))
        }
        _ => Ok(()),
    }
}

fn clean_texts(draft: &mut InvoiceDraft) -> Result<(), InvoiceError> {
    required("the number", &mut draft.number)?;
    if let InvoiceKind::CreditNote { of, .. } = &mut draft.kind {
        required("the number of the invoice that is corrected", of)?;
    }
    required("the brand", &mut draft.brand)?;
    clean_party("the seller", &mut draft.seller)?;
    clean_party("the buyer", &mut draft.buyer)?;
    optional("the buyer's reference", &mut draft.buyer_reference)?;
    for line in &mut draft.lines {
        required("the description of a line", &mut line.description)?;
    }
    if let Some(payment) = &mut draft.payment {
        required("the reference of the payment", &mut payment.reference)?;
        if let PaymentMethod::Other(name) = &mut payment.method {
            required("the method of the payment", name)?;
        }
    }
    if let VatTreatment::ReverseCharge { consultation: Some(consultation) } = &mut draft.treatment {
        required("the consultation number", &mut consultation.number)?;
    }
    for note in &mut draft.notes {
        bounded("a note", note, MAX_NOTE_CHARS)?;
    }
    draft.notes.retain(|note| !note.is_empty());
    count("notes", 0, MAX_NOTES, draft.notes.len())
}

fn clean_party(who: &'static str, party: &mut Party) -> Result<(), InvoiceError> {
    required(who, &mut party.name)?;
    optional("a VAT number", &mut party.vat_number)?;
    optional("a registration number", &mut party.registration_id)?;
    optional("an email address", &mut party.email)?;
    let Address { lines, postcode, city, country: _ } = &mut party.address;
    for text in lines.iter_mut().chain([postcode, city]) {
        bounded("a part of an address", text, MAX_TEXT_CHARS)?;
    }
    lines.retain(|line| !line.is_empty());
    count("lines of an address", 0, MAX_ADDRESS_LINES, lines.len())
}

fn required(field: &'static str, text: &mut String) -> Result<(), InvoiceError> {
    bounded(field, text, MAX_TEXT_CHARS)?;
    if text.is_empty() { Err(InvoiceError::Empty(field)) } else { Ok(()) }
}

fn optional(field: &'static str, text: &mut Option<String>) -> Result<(), InvoiceError> {
    if let Some(given) = text {
        bounded(field, given, MAX_TEXT_CHARS)?;
    }
    text.take_if(|text| text.is_empty());
    Ok(())
}

fn bounded(field: &'static str, text: &mut String, max: usize) -> Result<(), InvoiceError> {
    *text = clean(text);
    if text.chars().count() <= max { Ok(()) } else { Err(InvoiceError::TooLong { field, max }) }
}

fn count(what: &'static str, min: usize, max: usize, found: usize) -> Result<(), InvoiceError> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(InvoiceError::Count { what, min, max, found }) }
}
