//! Sample invoices of every kind.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a sample that cannot be made fails its test")]

use invoices::{
    Country, Invoice,
    model::{
        Address, DraftLine, InvoiceDraft, InvoiceKind, InvoicePayment, InvoiceTotals, Party, PaymentMethod,
        ServicePeriod, VatCategory, VatRate, VatShare, VatTreatment, ViesConsultation,
    },
};
use time::{Date, Month};

/// Returns every sample with a name that is valid as a file name.
pub(crate) fn all() -> Vec<(&'static str, Invoice)> {
    vec![
        ("domestic", prove(domestic())),
        ("reverse-charge", prove(reverse_charge())),
        ("consumer", prove(consumer())),
        ("outside", prove(outside())),
        ("credit-note", prove(credit_note())),
        ("zero", prove(zero())),
        ("unpaid", prove(unpaid())),
        ("long", prove(long())),
        ("scripts", prove(scripts())),
        ("extremes", prove(extremes())),
        ("play-money", prove(InvoiceDraft { play_money: true, ..long() })),
    ]
}

/// A Dutch buyer, two rates, paid.
pub(crate) fn domestic() -> InvoiceDraft {
    let mut draft = base(
        VatTreatment::Standard,
        vec![pro(), line("Additional seats", 3, 800, 2100), line("Handbook, printed", 2, 1650, 900)],
    );
    draft.buyer = party("Bakkerij De Gouden Krakeling V.O.F.", &["Prinsengracht 263"], "1016 GV Amsterdam NL");
    draft.buyer.vat_number = Some("NL004495445B01".to_owned());
    draft.buyer.registration_id = Some("34567890".to_owned());
    draft
}

/// A business in Germany whose number VIES confirmed.
pub(crate) fn reverse_charge() -> InvoiceDraft {
    let consultation = ViesConsultation { number: "WAPIAAAAY3k9hQbT".to_owned(), on: day(2026, Month::November, 3) };
    let mut draft = base(
        VatTreatment::ReverseCharge { consultation: Some(consultation) },
        vec![line("Business plan, monthly", 1, 9900, 0), line("Additional seats", 12, 800, 0)],
    );
    draft.payment = Some(InvoicePayment { method: PaymentMethod::DirectDebit, ..payment() });
    draft
}

/// A consumer in France, with few known details.
pub(crate) fn consumer() -> InvoiceDraft {
    let mut draft = base(
        VatTreatment::ConsumerOfAnotherState { country: country("FR") },
        vec![line("Pro plan, monthly", 1, 1999, 2000)],
    );
    draft.buyer = party("Zoé Lefèvre", &[], "  FR");
    draft.buyer.email = Some("zoe.lefevre@example.org".to_owned());
    draft.buyer_reference = None;
    draft.payment = Some(InvoicePayment { method: PaymentMethod::Card, ..payment() });
    draft
}

/// A business outside the European Union.
pub(crate) fn outside() -> InvoiceDraft {
    let mut draft = base(VatTreatment::OutsideScope, vec![line("Business plan, monthly", 1, 9900, 0)]);
    draft.buyer = party("Lovelace Analytical, Inc.", &["500 Howard Street", "Suite 300"], "94105 San-Francisco US");
    draft.buyer.email = Some("accounts@lovelace.example".to_owned());
    draft
}

/// A partial credit note of the first sample.
pub(crate) fn credit_note() -> InvoiceDraft {
    let mut draft = with_lines(domestic(), vec![line("Pro plan, 13 of 30 days not used", 1, 823, 2100)]);
    draft.kind = InvoiceKind::CreditNote { of: "2026-000117".to_owned(), of_date: day(2026, Month::November, 1) };
    "2026-000131".clone_into(&mut draft.number);
    draft.payment = Some(InvoicePayment { reference: "re_4qqhO89gsT".to_owned(), ..payment() });
    draft
}

/// A free plan, with nothing to pay.
pub(crate) fn zero() -> InvoiceDraft {
    let lines = vec![line("Pro plan, monthly", 1, 1900, 2100), line("Discount for open source", -1, 1900, 2100)];
    InvoiceDraft { payment: None, ..with_lines(domestic(), lines) }
}

/// An unpaid invoice.
pub(crate) fn unpaid() -> InvoiceDraft {
    InvoiceDraft { payment: None, tax_point: Some(day(2026, Month::November, 30)), ..domestic() }
}

/// More lines than a page holds.
pub(crate) fn long() -> InvoiceDraft {
    let lines = (1..=60).map(|n| {
        line(&format!("Project “site-{n:02}”: kept-ready application, per month"), n % 4 + 1, 500 + n * 7, 2100)
    });
    let mut draft = with_lines(domestic(), lines.collect());
    draft.notes.push(
        "Thank you for hosting with us. Questions about this invoice are answered by billing@svc.example.".to_owned(),
    );
    draft
}

/// Names in scripts other than Latin, some of which the typefaces lack.
pub(crate) fn scripts() -> InvoiceDraft {
    let mut draft = base(
        VatTreatment::ReverseCharge { consultation: None },
        vec![
            line("Επαγγελματικό πακέτο (Pro), μηνιαίο", 1, 1900, 0),
            line("Тариф «Бізнес» на місяць", 1, 9900, 0),
            line("専用ドメイン 株式会社ソフト開発、东京 서울", 2, 450, 0),
        ],
    );
    draft.buyer = party(
        "Αναλυτικές Μηχανές Α.Ε. — 株式会社 解析機関",
        &["Λεωφόρος Βασιλίσσης Σοφίας 12", "דלת 4"],
        "106-74 Αθήνα GR",
    );
    draft.buyer.vat_number = Some("EL094259216".to_owned());
    draft.buyer.email = Some("logistirio@example.gr".to_owned());
    draft
}

/// Names that are too long, figures that are too large, and markup.
pub(crate) fn extremes() -> InvoiceDraft {
    let long = "Gesellschaft für außerordentlich lange Firmennamen und Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamten mbH & Co. KG <b>\"&amp;'</b> ".repeat(2);
    let long: String = long.chars().take(290).collect();
    let mut draft = with_lines(
        domestic(),
        vec![
            line(&long, 1_000_000, 8_250, 2100),
            line("W".repeat(280).as_str(), -1, 1, 550),
            line("One cent", 1, 1, 1925),
        ],
    );
    draft.buyer.name.clone_from(&long);
    draft.buyer.address.lines = vec![long.clone(), "x".repeat(299), long];
    draft.buyer_reference = Some("reference-".repeat(29));
    draft.notes = vec!["A note that goes on. ".repeat(45); 10];
    draft
}

/// Fills in the sums that follow from the lines, and proves the draft.
pub(crate) fn prove(draft: InvoiceDraft) -> Invoice {
    Invoice::new(draft).expect("the sample is an invoice")
}

/// Returns the draft with other lines and the sums that follow from them.
pub(crate) fn with_lines(mut draft: InvoiceDraft, lines: Vec<DraftLine>) -> InvoiceDraft {
    draft.lines = lines;
    for line in &mut draft.lines {
        line.category = draft.treatment.category(line.rate);
    }
    draft.vat = VatShare::from_lines(&draft.lines).unwrap();
    let net_cents = draft.lines.iter().map(|line| line.net_cents).sum();
    let vat_cents = draft.vat.iter().map(|share| share.vat_cents).sum();
    draft.totals = InvoiceTotals { net_cents, vat_cents, total_cents: net_cents + vat_cents };
    draft
}

/// Returns a line, whose category follows from the draft's treatment.
pub(crate) fn line(description: &str, quantity: i64, unit_price_cents: i64, points: u16) -> DraftLine {
    DraftLine {
        description: description.to_owned(),
        quantity,
        unit_price_cents,
        net_cents: quantity * unit_price_cents,
        category: VatCategory::Standard,
        rate: VatRate::from_basis_points(points).unwrap(),
    }
}

/// Returns a party, with its postcode, city and country given as the last line of its address.
pub(crate) fn party(name: &str, lines: &[&str], place: &str) -> Party {
    let (place, code) = place.rsplit_once(' ').unwrap();
    let (postcode, city) = place.rsplit_once(' ').unwrap();
    Party {
        name: name.to_owned(),
        address: Address {
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
            postcode: postcode.replace('-', " "),
            city: city.replace('-', " "),
            country: country(code),
        },
        vat_number: None,
        registration_id: None,
        email: Some("administratie@krakeling.example".to_owned()),
    }
}

fn base(treatment: VatTreatment, lines: Vec<DraftLine>) -> InvoiceDraft {
    let mut seller =
        party("Stichting Voorbeeld Hosting B.V.", &["Herengracht 182", "3e verdieping"], "1016-BR Amsterdam NL");
    seller.vat_number = Some("NL859012345B01".to_owned());
    seller.registration_id = Some("72345678".to_owned());
    seller.email = Some("billing@svc.example".to_owned());
    let mut buyer = party("Beispiel Maschinenbau GmbH", &["Hauptstraße 17", "Aufgang C"], "10117 Berlin DE");
    buyer.vat_number = Some("DE123456788".to_owned());
    buyer.email = Some("rechnungen@beispiel.example".to_owned());
    let draft = InvoiceDraft {
        kind: InvoiceKind::Invoice,
        number: "2026-000123".to_owned(),
        issued: day(2026, Month::November, 3),
        tax_point: None,
        service: ServicePeriod { from: day(2026, Month::November, 1), to: day(2026, Month::November, 30) },
        seller,
        buyer,
        buyer_reference: Some("org/krakeling".to_owned()),
        lines: Vec::new(),
        vat: Vec::new(),
        totals: InvoiceTotals { net_cents: 0, vat_cents: 0, total_cents: 0 },
        treatment,
        payment: Some(payment()),
        brand: "svc".to_owned(),
        is_part: false,
        play_money: false,
        notes: Vec::new(),
    };
    with_lines(draft, lines)
}

fn pro() -> DraftLine {
    line("Pro plan, monthly", 1, 1900, 2100)
}

fn payment() -> InvoicePayment {
    InvoicePayment {
        method: PaymentMethod::Ideal,
        on: day(2026, Month::November, 3),
        reference: "tr_7UhSN1zuXS".to_owned(),
    }
}

fn country(code: &str) -> Country {
    code.parse().unwrap()
}

fn day(year: i32, month: Month, day: u8) -> Date {
    Date::from_calendar_date(year, month, day).unwrap()
}
