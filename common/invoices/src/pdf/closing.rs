//! The part after the lines: the sums at the right, the payment and the applicable VAT rules at the left, and notes.

use super::{
    compose::PageComposition,
    fonts,
    sheets::{DocumentSheets, NodeKind},
    style::{BODY, GUTTER, INK, LABEL, LEADING, LEFT, MIDDLE, QUIET, RIGHT, STRONG, TOTAL, TextStyle, WIDTH},
    words,
    wrap::wrap,
};
use crate::{
    Invoice,
    model::{InvoiceDraft, Party, VatCategory, VatShare, VatTreatment},
};

/// The height that the sums need; without it, a new page is started.
const SUMS_HEIGHT: f32 = 130.0;
const ASIDE_LINES: usize = 8;
const MISSING_GLYPHS: &str =
    "Characters that this document's typefaces lack are drawn as □; the attached XML has them.";

pub(super) fn set(page: &mut PageComposition<'_>) {
    let asides = asides(page.invoice);
    let room = WIDTH / 2.0 - 2.0 * GUTTER;
    let lines_of =
        |text: &str| wrap(text, BODY.weight, room / BODY.size, ASIDE_LINES).iter().map(|_| LEADING).sum::<f32>();
    let height: f32 = asides.iter().map(|(_, text)| lines_of(text) + 28.0).sum();
    page.make_room(height.max(SUMS_HEIGHT));
    page.y += 26.0;
    let (top, first) = (page.y, page.sheets.pages.len());
    let mut end = top;
    for (heading, text) in asides {
        let node = page.sheets.open(DocumentSheets::ROOT, NodeKind::Heading(heading));
        page.sheets.text(node, LEFT, end, heading, LABEL);
        let node = page.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
        end = page.paragraph(node, (LEFT, end + 14.0), room, &text, BODY, ASIDE_LINES) + 10.0;
    }
    sums(page);
    if page.sheets.pages.len() == first {
        page.y = page.y.max(end);
    }
    notes(page);
}

/// Returns the payment and the VAT rules, in sentences.
fn asides(invoice: &Invoice) -> Vec<(&'static str, String)> {
    let payment = match (&invoice.payment, invoice.is_credit_note()) {
        (Some(payment), is_refund) => {
            let verb = if is_refund { "Refunded" } else { "Paid" };
            let (on, by) = (words::date(payment.on), payment.method.name());
            format!("{verb} on {on} by {by}. Reference: {}", payment.reference)
        }
        (None, true) => "The amount goes back by the means of payment of the invoice.".to_owned(),
        (None, false) => "Payable on receipt.".to_owned(),
    };
    let mut asides = vec![("Payment", payment)];
    asides.extend(invoice.treatment.note().map(|note| ("VAT", note)));
    if let VatTreatment::ReverseCharge { consultation: Some(proof) } = &invoice.treatment {
        let on = words::date(proof.on);
        let text = format!("The customer's number was valid on {on}. Consultation number: {}", proof.number);
        asides.push(("Confirmed by VIES", text));
    }
    asides
}

fn sums(page: &mut PageComposition<'_>) {
    let (invoice, totals) = (page.invoice, page.invoice.totals);
    sum(page, "Net amount", totals.net_cents, QUIET, BODY);
    for share in &invoice.vat {
        sum(page, &vat_name(share), share.vat_cents, QUIET, BODY);
    }
    page.make_room(60.0);
    page.sheets.rule(MIDDLE, RIGHT, page.y - 4.0, 0.9, INK);
    page.y += 15.0;
    let total = if invoice.is_credit_note() { "Total credited" } else { "Total" };
    sum(page, total, totals.total_cents, TOTAL, TOTAL);
    page.y += 4.0;
    let (paid, due) =
        if invoice.is_credit_note() { ("Refunded on", "Still to be refunded") } else { ("Paid on", "Amount due") };
    if let Some(payment) = &invoice.payment {
        sum(page, &format!("{paid} {}", words::date(payment.on)), -totals.total_cents, QUIET, BODY);
    }
    sum(page, due, invoice.due_cents(), STRONG, STRONG);
}

fn sum(page: &mut PageComposition<'_>, name: &str, cents: i64, name_style: TextStyle, style: TextStyle) {
    page.make_room(LEADING);
    let node = page.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
    page.sheets.text(node, MIDDLE, page.y, name, name_style);
    page.sheets.text_to(node, RIGHT, page.y, &words::money(cents), style);
    page.y += LEADING + 4.0;
}

fn vat_name(share: &VatShare) -> String {
    match share.category {
        VatCategory::Standard | VatCategory::Zero => {
            format!("VAT {}% of {}", share.rate, words::money(share.net_cents))
        }
        VatCategory::ReverseCharge => "VAT reverse charged".to_owned(),
        VatCategory::OutsideScope => "Not subject to EU VAT".to_owned(),
    }
}

fn notes(page: &mut PageComposition<'_>) {
    let invoice = page.invoice;
    let missing = (!texts(invoice).all(fonts::has_glyphs)).then(|| MISSING_GLYPHS.to_owned());
    for note in invoice.notes.iter().cloned().chain(missing) {
        page.y += 8.0;
        let node = page.sheets.open(DocumentSheets::ROOT, NodeKind::Paragraph);
        for line in wrap(&note, QUIET.weight, WIDTH / QUIET.size, usize::MAX) {
            page.make_room(LEADING);
            page.sheets.text(node, LEFT, page.y, &line, QUIET);
            page.y += LEADING;
        }
    }
}

/// Returns every text of the document that others wrote.
fn texts(invoice: &InvoiceDraft) -> impl Iterator<Item = &str> {
    let parties = party_texts(&invoice.seller).chain(party_texts(&invoice.buyer));
    let lines = invoice.lines.iter().map(|line| &line.description);
    let others = [&invoice.number, &invoice.brand].into_iter().chain(&invoice.buyer_reference).chain(&invoice.notes);
    parties.chain(lines).chain(others).map(String::as_str)
}

fn party_texts(party: &Party) -> impl Iterator<Item = &String> {
    let address = &party.address;
    [&party.name, &address.postcode, &address.city].into_iter().chain(&address.lines).chain(&party.email)
}
