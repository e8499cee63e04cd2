//! Every proved invoice becomes valid documents, whatever its texts.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[expect(dead_code, reason = "the other tests take the other samples")]
mod samples;

use en16931_formats::Syntax;
use invoices::model::{DraftLine, InvoiceDraft, InvoiceKind, Party, PaymentMethod, VatTreatment, ViesConsultation};
use proptest::{collection::vec, option, prelude::*};
use samples::{line, with_lines};

/// Generates text, including malicious text.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z .&'-]{1,40}",
        "\\PC{1,60}",
        any::<String>().prop_map(|text| text.chars().take(120).collect()),
        "[<>&\"'\u{0}-\u{1f}\u{202a}-\u{202e}\u{e000}\u{fffe}\\]]{1,20}x",
        "[α-ωА-Яа-я一-龥ぁ-ん가-힣א-ת]{1,80}",
        Just("]]> <!-- --> <?x?> &amp; 100% of W".repeat(6)),
    ]
    .prop_map(|text| text + " Ltd")
}

fn party() -> impl Strategy<Value = Party> {
    let place = (
        vec(text(), 0..=3),
        "[A-Z0-9 ]{0,8}",
        text(),
        prop::sample::select(vec!["NL", "DE", "FR", "GR", "US", "GB", "JP"]),
    );
    let vat = option::of(prop::sample::select(vec![
        "DE123456788",
        "FR40303265045",
        "EL094259216",
        "IT00743110157",
        "ATU12345675",
        "XI123456789",
    ]));
    let email = option::of("[a-z]{1,10}@[a-z]{1,10}\\.example");
    (text(), place, vat, option::of("[0-9]{8}"), email).prop_map(
        |(name, (lines, postcode, city, country), vat, number, email)| {
            let mut party = samples::party(&name, &[], &format!("   {country}"));
            (party.address.lines, party.address.postcode, party.address.city) = (lines, postcode, city);
            party.vat_number = vat.map(str::to_owned);
            party.registration_id = number;
            party.email = email;
            party
        },
    )
}

fn lines() -> impl Strategy<Value = Vec<DraftLine>> {
    prop_oneof![4 => vec(one_line(), 1..12), 1 => vec(one_line(), 30..120)]
}

fn one_line() -> impl Strategy<Value = DraftLine> {
    let rate = prop::sample::select(vec![0, 300, 550, 900, 1925, 2100, 2700]);
    let parts = (text(), -3_i64..50, 0_i64..150_000, rate);
    parts.prop_map(|(what, quantity, price, rate)| line(&what, quantity, price, rate))
}

fn treatment() -> impl Strategy<Value = VatTreatment> {
    prop_oneof![
        Just(VatTreatment::Standard),
        option::of("[A-Z0-9]{16}").prop_map(|number| VatTreatment::ReverseCharge {
            consultation: number.map(|number| ViesConsultation { number, on: samples::domestic().issued }),
        }),
        Just(VatTreatment::ConsumerOfAnotherState { country: "FR".parse().unwrap() }),
        Just(VatTreatment::OutsideScope),
    ]
}

fn draft() -> impl Strategy<Value = InvoiceDraft> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let texts = (text(), text(), option::of(text()), vec(text(), 0..4));
    (treatment(), lines(), party(), texts, flags).prop_map(|(treatment, mut lines, buyer, texts, flags)| {
        if matches!(treatment, VatTreatment::ReverseCharge { .. } | VatTreatment::OutsideScope) {
            lines = lines
                .into_iter()
                .map(|sold| line(&sold.description, sold.quantity, sold.unit_price_cents, 0))
                .collect();
        }
        let mut draft = samples::domestic();
        draft.buyer = buyer;
        if matches!(treatment, VatTreatment::ReverseCharge { .. }) {
            draft.buyer.vat_number.get_or_insert_with(|| "DE123456788".to_owned());
        }
        draft.treatment = treatment;
        let (brand, reference, buyer_reference, notes) = texts;
        (draft.brand, draft.buyer_reference, draft.notes) = (brand, buyer_reference, notes);
        let (is_credit_note, is_paid, is_tax_point, play_money) = flags;
        if is_credit_note {
            draft.kind = InvoiceKind::CreditNote { of: "2026-000001".to_owned(), of_date: draft.issued };
        }
        if let Some(payment) = &mut draft.payment {
            (payment.method, payment.reference) = (PaymentMethod::Other(reference.clone()), reference);
        }
        draft.payment.take_if(|_| !is_paid);
        draft.tax_point = is_tax_point.then_some(draft.service.to);
        draft.play_money = play_money;
        with_lines(draft, lines)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn every_proved_invoice_becomes_documents(draft in draft()) {
        let total = draft.totals.total_cents;
        let Ok(invoice) = invoices::Invoice::new(draft) else {
            prop_assert!(total < 0, "only a negative total is refused here");
            return Ok(());
        };
        let documents = invoices::render(&invoice).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for (xml, syntax) in [(&documents.cii, Syntax::Cii), (&documents.ubl, Syntax::Ubl)] {
            let read = en16931_formats::read(xml.as_bytes()).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(read.syntax, syntax);
            prop_assert!(read.entries.is_empty(), "{:?}", read.entries);
            prop_assert_eq!(read.invoice.buyer.name.as_deref(), Some(invoice.buyer.name.as_str()));
            prop_assert_eq!(read.invoice.totals.gross_total.to_minor_units(), invoice.totals.total_cents);
            prop_assert_eq!(read.invoice.lines.len(), invoice.lines.len());
        }
        prop_assert_eq!(invoices::render(&invoice).ok(), Some(documents));
    }
}
