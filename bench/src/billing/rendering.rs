//! The cost of an invoice's documents: the PDF/A-3 with the embedded CII, and the UBL.

use std::{fs, time::Duration};

use anyhow::Context as _;
use invoices::{
    Invoice,
    model::{
        Address, DraftLine, InvoiceDraft, InvoiceKind, InvoicePayment, InvoiceTotals, Party, PaymentMethod,
        ServicePeriod, VatRate, VatShare, VatTreatment,
    },
};
use time::{Date, macros::date};

use crate::{BenchEffort, figures::quantile};

const WARM_UP: u32 = 20;
const INVOICES: u32 = 200;

/// The billed month.
const FROM: Date = date!(2026 - 11 - 01);
const TO: Date = date!(2026 - 11 - 30);

pub(crate) fn measure(effort: BenchEffort) -> anyhow::Result<String> {
    let mut text = "An invoice of one line and one of 40, rendered by one thread: processor time, which is what a core of its own \
                    would take.\n\n\
                    | lines | invoices | p50 ms | p99 ms | invoices a second | KB of the PDF |\n|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for lines in [1, 40] {
        text.push_str(&row(lines, INVOICES * u32::try_from(effort.rounds)?)?);
    }
    Ok(text)
}

fn row(lines: u32, count: u32) -> anyhow::Result<String> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for number in 0..WARM_UP + count {
        let invoice = Invoice::new(draft(number, lines)?)?;
        let before = thread_time()?;
        bytes = invoices::render(&invoice)?.pdf.len();
        if number >= WARM_UP {
            times.push(thread_time()?.saturating_sub(before).as_secs_f64() * 1_000.0);
        }
    }
    let a_second = f64::from(count) * 1_000.0 / times.iter().sum::<f64>();
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(&times, share));
    Ok(format!("| {lines} | {count} | {p50:.2} | {p99:.2} | {a_second:.0} | {} |\n", bytes / 1_000))
}

fn thread_time() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().context("the kernel counts no time of threads")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

/// An invoice of the Dutch seller to a business in the same country.
fn draft(number: u32, lines: u32) -> anyhow::Result<InvoiceDraft> {
    let (treatment, rate) = (VatTreatment::Standard, VatRate::from_basis_points(2_100)?);
    let line = |place: u32| DraftLine {
        description: format!("Plan Pro, project {place}, 1 to 30 November 2026"),
        quantity: 1,
        unit_price_cents: 2_000,
        net_cents: 2_000,
        category: treatment.category(rate),
        rate,
    };
    let lines: Vec<DraftLine> = (1..=lines).map(line).collect();
    let vat = VatShare::from_lines(&lines)?;
    let net_cents = lines.iter().map(|line| line.net_cents).sum();
    let vat_cents = vat.iter().map(|share| share.vat_cents).sum();
    Ok(InvoiceDraft {
        kind: InvoiceKind::Invoice,
        is_part: false,
        number: format!("2026-{number:06}"),
        issued: FROM,
        tax_point: None,
        service: ServicePeriod { from: FROM, to: TO },
        seller: party("Sites B.V.", "Keizersgracht 1", "1015 CJ", "NL123456789B01")?,
        buyer: party(&format!("Bakkerij {number} V.O.F."), "Prinsengracht 263", "1016 GV", "NL004495445B01")?,
        buyer_reference: None,
        lines,
        vat,
        totals: InvoiceTotals { net_cents, vat_cents, total_cents: net_cents + vat_cents },
        treatment,
        payment: Some(InvoicePayment {
            method: PaymentMethod::DirectDebit,
            on: FROM,
            reference: format!("tr_{number}"),
        }),
        brand: "svc".to_owned(),
        play_money: false,
        notes: Vec::new(),
    })
}

fn party(name: &str, street: &str, postcode: &str, vat_number: &str) -> anyhow::Result<Party> {
    let (lines, country) = (vec![street.to_owned()], "NL".parse()?);
    Ok(Party {
        name: name.to_owned(),
        address: Address { lines, postcode: postcode.to_owned(), city: "Amsterdam".to_owned(), country },
        vat_number: Some(vat_number.to_owned()),
        registration_id: Some("12345678".to_owned()),
        email: Some("billing@sites.example".to_owned()),
    })
}
