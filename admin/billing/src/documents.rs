//! Renders the documents of an invoice from its content, which is fixed when it is issued: rendering it again produces
//! the same bytes.

use anyhow::Context as _;
use domain::{
    BRAND, Timestamp,
    billing::{self, Country, invoice::InvoiceKind},
};
use invoices::{
    Invoice, InvoiceDocuments,
    model::{
        self, InvoiceDraft, InvoicePayment, InvoiceTotals, Party, PaymentMethod, ServicePeriod, VatCategory, VatRate,
        VatShare,
    },
};
use time::{Date, Duration};

use super::{ContentLine, CorrectedInvoice, InvoiceContent, PaymentDetails};

/// Renders the PDF and the XML of an invoice. It takes milliseconds of CPU time: call it on a blocking thread.
pub fn render(content: &InvoiceContent) -> anyhow::Result<InvoiceDocuments> {
    let invoice = Invoice::new(draft(content)?).context("its content is no invoice")?;
    Ok(invoices::render(&invoice)?)
}

fn draft(content: &InvoiceContent) -> anyhow::Result<InvoiceDraft> {
    let treatment = treatment(content)?;
    let rate = VatRate::from_basis_points(content.treatment.rate().basis_points())?;
    let category = treatment.category(rate);
    Ok(InvoiceDraft {
        kind: match (content.kind, &content.corrects) {
            (InvoiceKind::CreditNote, Some(CorrectedInvoice { number, issued_at, .. })) => {
                model::InvoiceKind::CreditNote { of: number.clone(), of_date: day(*issued_at) }
            }
            (InvoiceKind::CreditNote, None) => anyhow::bail!("a credit note names no invoice"),
            (InvoiceKind::Invoice, _) => model::InvoiceKind::Invoice,
        },
        is_part: content.corrects.is_some(),
        number: content.number.clone(),
        issued: day(content.issued_at),
        tax_point: None,
        service: service(content),
        seller: seller(content)?,
        buyer: buyer(content)?,
        buyer_reference: None,
        lines: content.lines.iter().map(|line| self::line(line, category, rate)).collect(),
        vat: vec![VatShare { category, rate, net_cents: content.amounts.net.0, vat_cents: content.amounts.vat.0 }],
        totals: InvoiceTotals {
            net_cents: content.amounts.net.0,
            vat_cents: content.amounts.vat.0,
            total_cents: content.amounts.total.0,
        },
        treatment,
        payment: Some(payment(&content.payment)),
        brand: BRAND.to_owned(),
        play_money: content.payment.is_play,
        notes: content.corrects.iter().map(|correction| correction.reason.clone()).collect(),
    })
}

fn line(line: &ContentLine, category: VatCategory, rate: VatRate) -> model::DraftLine {
    model::DraftLine {
        description: line.description.clone(),
        quantity: line.quantity.into(),
        unit_price_cents: line.unit_net.0,
        net_cents: line.net.0,
        category,
        rate,
    }
}

fn treatment(content: &InvoiceContent) -> anyhow::Result<model::VatTreatment> {
    use billing::vat::VatTreatment;
    let buyer = &content.buyer;
    Ok(match content.treatment {
        VatTreatment::Domestic { .. } => model::VatTreatment::Standard,
        VatTreatment::ReverseCharge => model::VatTreatment::ReverseCharge {
            consultation: buyer
                .vat_consultation
                .clone()
                .zip(buyer.vat_checked_at)
                .map(|(number, checked_at)| model::ViesConsultation { number, on: day(checked_at) }),
        },
        VatTreatment::OtherState { country, .. } => {
            model::VatTreatment::ConsumerOfAnotherState { country: self::country(country)? }
        }
        VatTreatment::Outside => model::VatTreatment::OutsideScope,
    })
}

/// Returns the month that is paid for, or the day of the payment if it bought nothing.
fn service(content: &InvoiceContent) -> ServicePeriod {
    let paid = day(content.payment.paid_at);
    let starts = content.lines.iter().filter_map(|line| line.period_start).map(day);
    // A month ends at the instant at which the next begins, which is on the following day.
    let ends = content.lines.iter().filter_map(|line| line.period_end).map(|end| day(end) - Duration::DAY);
    let from = starts.min().unwrap_or(paid);
    ServicePeriod { from, to: ends.max().unwrap_or(paid).max(from) }
}

fn seller(content: &InvoiceContent) -> anyhow::Result<Party> {
    let seller = &content.seller;
    Ok(Party {
        name: seller.name.clone(),
        address: model::Address {
            lines: seller.address.clone(),
            postcode: seller.postcode.clone(),
            city: seller.city.clone(),
            country: country(seller.country)?,
        },
        vat_number: seller.vat_number.as_ref().map(|number| number.as_str().to_owned()),
        registration_id: seller.registration.clone(),
        email: seller.email.as_ref().map(|email| email.as_str().to_owned()),
    })
}

fn buyer(content: &InvoiceContent) -> anyhow::Result<Party> {
    let buyer = &content.buyer;
    let address = buyer.address.as_ref();
    Ok(Party {
        // A name of only invisible characters cannot be printed.
        name: if invoices::is_blank(buyer.name.as_str()) { buyer.account.to_string() } else { buyer.name.to_string() },
        address: model::Address {
            lines: address
                .map(|address| address.lines.as_slice())
                .unwrap_or_default()
                .iter()
                .map(ToString::to_string)
                .collect(),
            postcode: address
                .and_then(|address| address.postcode.as_ref())
                .map(ToString::to_string)
                .unwrap_or_default(),
            city: address.map(|address| address.city.to_string()).unwrap_or_default(),
            country: country(buyer.country)?,
        },
        vat_number: buyer.vat_number.as_ref().map(|number| number.as_str().to_owned()),
        registration_id: None,
        email: None,
    })
}

fn payment(payment: &PaymentDetails) -> InvoicePayment {
    let method = match payment.method.as_deref() {
        _ if payment.is_play => PaymentMethod::Other("play money".to_owned()),
        Some("creditcard") => PaymentMethod::Card,
        Some("directdebit") => PaymentMethod::DirectDebit,
        Some("banktransfer") => PaymentMethod::BankTransfer,
        Some("ideal") => PaymentMethod::Ideal,
        Some("bancontact") => PaymentMethod::Bancontact,
        Some("paypal") => PaymentMethod::PayPal,
        Some(other) => PaymentMethod::Other(other.to_owned()),
        None => PaymentMethod::Other(payment.provider.clone()),
    };
    let reference = payment.provider_id.clone().unwrap_or_else(|| payment.id.as_str().to_owned());
    InvoicePayment { method, on: day(payment.paid_at), reference }
}

/// Returns the ISO code of a country: for VAT, Northern Ireland has a code of its own.
fn country(country: Country) -> anyhow::Result<invoices::Country> {
    let code = if country.as_str() == "XI" { "GB" } else { country.as_str() };
    Ok(code.parse()?)
}

fn day(instant: Timestamp) -> Date {
    instant.as_datetime().date()
}

#[cfg(test)]
mod tests {
    use domain::billing::{
        Cents,
        invoice::credit,
        vat::{SaleAmounts, VatTreatment},
    };
    use serde_json::json;

    use super::*;

    /// Returns a credit note of `amounts` over an invoice with 21 percent VAT.
    fn content(amounts: SaleAmounts, treatment: VatTreatment, country: &str) -> InvoiceContent {
        let at = "2026-11-23T12:00:00Z";
        let seller = json!({ "name": "Seller", "address": ["1 Street"], "postcode": "1234 AB", "city": "Town", "country": "NL",
                             "vat_number": "NL123456789B01", "registration": "12345678" });
        let buyer = json!({ "account": "usr_0123456789abcdefghij", "name": "Ada", "country": country, "address": null,
                            "vat_number": null, "vat_status": null, "vat_checked_at": null, "vat_consultation": null });
        let line = json!({ "description": "Plan Pro", "plan": "pro", "period_start": null, "period_end": null, "quantity": 1,
                           "unit_net": amounts.net, "net": amounts.net });
        serde_json::from_value(json!({
            "kind": "credit_note", "number": "CN-2026-000001", "issued_at": at, "seller": seller, "buyer": buyer,
            "lines": [line], "treatment": treatment, "amounts": amounts,
            "payment": { "id": "pay_0123456789abcdefghij", "provider": "mollie", "provider_id": "tr_1", "method": "ideal",
                         "paid_at": at, "is_play": false },
            "corrects": { "number": "2026-000001", "issued_at": at, "reason": "The payment was refunded." },
        }))
        .unwrap()
    }

    #[test]
    fn every_part_of_an_invoice_can_be_credited() {
        let treatment: VatTreatment = serde_json::from_value(json!({ "kind": "domestic", "rate": 2_100 })).unwrap();
        let whole = treatment.amounts(Cents(2_000));
        let nothing = SaleAmounts { net: Cents(0), vat: Cents(0), total: Cents(0) };
        for total in 1..whole.total.0 {
            let first = credit(whole, nothing, Cents(total));
            let rest = credit(whole, first, Cents(whole.total.0 - total));
            for part in [first, rest] {
                let draft = draft(&content(part, treatment, "NL")).unwrap();
                assert!(Invoice::new(draft).is_ok(), "{total}: {part:?}");
            }
        }
        // 826 and 174 cents, where the rate gives 173 for the former.
        render(&content(credit(whole, nothing, Cents(1_000)), treatment, "NL")).unwrap();
    }

    #[test]
    fn buyers_outside_the_union_get_documents_too() {
        let amounts = VatTreatment::Outside.amounts(Cents(2_000));
        for country in ["US", "XI", "CH"] {
            render(&content(amounts, VatTreatment::Outside, country)).unwrap();
        }
    }
}
