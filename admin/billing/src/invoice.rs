//! Invoices and credit notes: their numbers, and the content from which their documents are rendered.

use ::payments::ProviderKind;
use app::change::Change;
use config::InvoiceSeller;
use db::billing::{
    invoices::{self, Invoice},
    payments::Payment,
    reversals::PaymentReversal,
    subscriptions::Subscription,
};
use domain::{
    InvoiceId, PaymentId, ReversalId, Timestamp,
    billing::{
        Cents,
        invoice::{InvoiceKind, InvoiceSeries, InvoiceStatus, credit},
        payment::{ReversalKind, ReversalState},
        vat::{SaleAmounts, VatTreatment},
    },
};
use mail::notices::{Notice, notify};
use serde::{Deserialize, Serialize};

use super::{PaymentTerms, terms::InvoiceBuyer};

/// The content from which the documents of an invoice or a credit note are rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceContent {
    /// Invoice or credit note.
    pub kind: InvoiceKind,
    /// The document's number.
    pub number: String,
    /// The time of issue.
    pub issued_at: Timestamp,
    /// The seller.
    pub seller: InvoiceSeller,
    /// The buyer, with the registry's proof about its VAT number.
    pub buyer: InvoiceBuyer,
    /// The lines, without VAT.
    pub lines: Vec<ContentLine>,
    /// The treatment of VAT, with its rate.
    pub treatment: VatTreatment,
    /// The amounts; positive on both kinds.
    pub amounts: SaleAmounts,
    /// The payment.
    pub payment: PaymentDetails,
    /// The invoice that a credit note corrects, or that is issued again.
    pub corrects: Option<CorrectedInvoice>,
}

/// A line of an invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentLine {
    /// The text.
    pub description: String,
    /// The plan's id.
    pub plan: String,
    /// The start of the month; `None` if the payment bought nothing.
    pub period_start: Option<Timestamp>,
    /// The end of the month; `None` if the payment bought nothing.
    pub period_end: Option<Timestamp>,
    /// The number of months.
    pub quantity: u32,
    /// The price of one month, without VAT.
    pub unit_net: Cents,
    /// The price of all months, without VAT.
    pub net: Cents,
}

/// The payment of an invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentDetails {
    /// Our id.
    pub id: PaymentId,
    /// The kind of provider: `mollie` or `play`.
    pub provider: String,
    /// The provider's id of the payment.
    pub provider_id: Option<String>,
    /// The payment method, such as `ideal`.
    pub method: Option<String>,
    /// The time of the payment or, on a credit note, of its reversal.
    pub paid_at: Timestamp,
    /// Whether play money paid it, which makes the document worthless.
    pub is_play: bool,
}

/// The invoice that another document refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectedInvoice {
    /// The number of that invoice.
    pub number: String,
    /// The time of issue of that invoice.
    pub issued_at: Timestamp,
    /// The reason for the correction, as a sentence.
    pub reason: String,
}

struct DocumentDraft<'a> {
    kind: InvoiceKind,
    payment: &'a Payment,
    terms: &'a PaymentTerms,
    lines: Vec<ContentLine>,
    amounts: SaleAmounts,
    paid_at: Timestamp,
    reversal: Option<&'a ReversalId>,
    restores: Option<&'a ReversalId>,
    corrects: Option<(&'a Invoice, &'static str)>,
}

/// Issues the invoice of a payment that was just paid for `subscription`. The invoice names no month if the payment
/// bought nothing.
pub(super) async fn issue(
    change: &mut Change<'_>,
    payment: &Payment,
    terms: &PaymentTerms,
    subscription: &Subscription,
) -> Result<(), sqlx::Error> {
    let month = |period| subscription.month_start(period).filter(|_| payment.covers);
    let lines = vec![ContentLine {
        description: format!("Plan {}, one month", terms.plan_name),
        plan: terms.plan.clone(),
        period_start: month(payment.period),
        period_end: month(payment.period.saturating_add(1)),
        quantity: 1,
        unit_net: terms.amounts.net,
        net: terms.amounts.net,
    }];
    let now = change.now();
    let draft = DocumentDraft {
        kind: InvoiceKind::Invoice,
        payment,
        terms,
        lines,
        amounts: terms.amounts,
        paid_at: payment.settled_at.unwrap_or(now),
        reversal: None,
        restores: None,
        corrects: None,
    };
    write(change, draft).await
}

/// Issues a credit note for a completed reversal, over at most what the invoice has not credited yet.
pub(super) async fn issue_credit_note(
    change: &mut Change<'_>,
    payment: &Payment,
    terms: &PaymentTerms,
    reversal: &PaymentReversal,
) -> Result<(), sqlx::Error> {
    let issued = invoices::list_for_payment(&mut **change, &payment.id).await?;
    let Some(invoice) = find_original(&issued) else { return Ok(()) };
    if issued.iter().any(|note| note.reversal_id.as_ref() == Some(&reversal.id)) {
        return Ok(());
    }
    let amounts = credit(invoice.amounts(), credited_amounts(&issued), reversal.total_cents);
    if amounts.total == Cents::ZERO {
        tracing::error!(payment = %payment.id, reversal = %reversal.id, "more went back than was paid");
        return Ok(());
    }
    let reason = match reversal.kind {
        ReversalKind::Refund => "The payment was refunded.",
        ReversalKind::Chargeback => "The payment was charged back by the payer's bank.",
    };
    let paid_at = reversal.settled_at.unwrap_or_else(|| change.now());
    let draft = DocumentDraft {
        kind: InvoiceKind::CreditNote,
        payment,
        terms,
        lines: vec![correction_line(terms, amounts.net)],
        amounts,
        paid_at,
        reversal: Some(&reversal.id),
        restores: None,
        corrects: Some((invoice, reason)),
    };
    write(change, draft).await
}

/// Invoices again what was credited for a reversal whose money came back.
pub(super) async fn restore(
    change: &mut Change<'_>,
    payment: &Payment,
    terms: &PaymentTerms,
    reversal: &PaymentReversal,
) -> Result<(), sqlx::Error> {
    let issued = invoices::list_for_payment(&mut **change, &payment.id).await?;
    let note = issued.iter().find(|note| note.reversal_id.as_ref() == Some(&reversal.id));
    let (Some(invoice), Some(note)) = (find_original(&issued), note) else { return Ok(()) };
    let paid_at = change.now();
    let draft = DocumentDraft {
        kind: InvoiceKind::Invoice,
        payment,
        terms,
        lines: vec![correction_line(terms, note.net_cents)],
        amounts: note.amounts(),
        paid_at,
        reversal: None,
        restores: Some(&reversal.id),
        corrects: Some((invoice, "Money that was credited came back.")),
    };
    write(change, draft).await
}

fn correction_line(terms: &PaymentTerms, net: Cents) -> ContentLine {
    ContentLine {
        description: format!("Plan {}", terms.plan_name),
        plan: terms.plan.clone(),
        period_start: None,
        period_end: None,
        quantity: 1,
        unit_net: net,
        net,
    }
}

pub(super) fn find_original(issued: &[Invoice]) -> Option<&Invoice> {
    issued.iter().find(|invoice| invoice.kind == InvoiceKind::Invoice && invoice.restores.is_none())
}

fn credited_amounts(issued: &[Invoice]) -> SaleAmounts {
    let sum = |part: fn(&Invoice) -> Cents| {
        let of = |invoice: &Invoice| match invoice.kind {
            InvoiceKind::CreditNote => part(invoice),
            InvoiceKind::Invoice if invoice.restores.is_some() => -part(invoice),
            InvoiceKind::Invoice => Cents::ZERO,
        };
        issued.iter().map(of).sum()
    };
    SaleAmounts { net: sum(|i| i.net_cents), vat: sum(|i| i.vat_cents), total: sum(|i| i.total_cents) }
}

pub(super) async fn update_status(
    change: &mut Change<'_>,
    payment: &Payment,
    reversals: &[PaymentReversal],
) -> Result<(), sqlx::Error> {
    let issued = invoices::list_for_payment(&mut **change, &payment.id).await?;
    let Some(invoice) = find_original(&issued) else { return Ok(()) };
    let done = || reversals.iter().filter(|reversal| reversal.state == ReversalState::Done);
    let back: Cents = done().map(|reversal| reversal.total_cents).sum();
    let status = match () {
        () if done().any(|reversal| reversal.kind == ReversalKind::Chargeback) => InvoiceStatus::ChargedBack,
        () if back == Cents::ZERO => InvoiceStatus::Paid,
        () if back >= invoice.total_cents => InvoiceStatus::Refunded,
        () => InvoiceStatus::PartlyRefunded,
    };
    invoices::set_status(change, &invoice.id, status).await
}

/// Numbers and inserts a document, and queues its letter.
async fn write(change: &mut Change<'_>, draft: DocumentDraft<'_>) -> Result<(), sqlx::Error> {
    let DocumentDraft { kind, payment, terms, lines, amounts, paid_at, reversal, restores, corrects } = draft;
    let now = change.now();
    let is_play = payment.provider == ProviderKind::Play.as_str();
    let number = invoices::take_number(change, InvoiceSeries::new(kind, is_play), now.as_datetime().year()).await?;
    let content = InvoiceContent {
        kind,
        number: number.to_string(),
        issued_at: now,
        seller: terms.seller.clone(),
        buyer: terms.buyer.clone(),
        lines,
        treatment: terms.treatment,
        amounts,
        payment: PaymentDetails {
            id: payment.id.clone(),
            provider: payment.provider.clone(),
            provider_id: payment.provider_id.clone(),
            method: payment.method.clone(),
            paid_at,
            is_play,
        },
        corrects: corrects.map(|(invoice, reason)| CorrectedInvoice {
            number: invoice.number.clone(),
            issued_at: invoice.issued_at,
            reason: reason.to_owned(),
        }),
    };
    let is_credit_note = kind == InvoiceKind::CreditNote;
    let invoice = Invoice {
        id: InvoiceId::new(now),
        account: payment.account.clone(),
        kind,
        number: number.to_string(),
        payment_id: payment.id.clone(),
        reversal_id: reversal.cloned(),
        corrects: corrects.filter(|_| is_credit_note).map(|(invoice, _)| invoice.id.clone()),
        restores: restores.cloned(),
        status: InvoiceStatus::Paid,
        issued_at: now,
        net_cents: amounts.net,
        vat_cents: amounts.vat,
        total_cents: amounts.total,
        content: serde_json::to_value(&content).map_err(|error| sqlx::Error::Encode(error.into()))?,
        has_document: false,
    };
    invoices::insert(change, &invoice, number).await?;
    let notice =
        Notice::Invoice { number: invoice.number, total: amounts.total, plan: terms.plan_name.clone(), is_credit_note };
    notify(change, &payment.account, &format!("invoice/{}", invoice.id), &notice, Some(&invoice.id), now).await
}
