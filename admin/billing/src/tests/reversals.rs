//! Refunds and charge-backs.

use domain::billing::{
    Cents,
    invoice::{InvoiceKind, InvoiceStatus},
    payment::{PaymentState, ReversalKind, ReversalState},
    subscription::SubscriptionStatus,
};

use super::{Bench, DAY, provider::ProviderFault};
use crate::{poll_by_provider_id, refund};

#[tokio::test]
async fn a_charge_back_of_the_present_month_is_credited_and_charged_again() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("NL", "pro").await;
    let total = bench.provider.last().total;
    bench.days(3).await;
    bench.provider.reverse(&id, ReversalKind::Chargeback, total, ReversalState::Done);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.due_period, current.period), (SubscriptionStatus::PastDue, 0, 0));
    assert_eq!(bench.letters("charged_back").await, 1);
    bench.days(1).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.due_period, current.period), (SubscriptionStatus::Active, 1, 0));
    let kinds: Vec<_> = bench.invoices(&account).await.into_iter().map(|i| (i.kind, i.total_cents, i.status)).collect();
    let wanted = [
        (InvoiceKind::Invoice, total, InvoiceStatus::ChargedBack),
        (InvoiceKind::CreditNote, total, InvoiceStatus::Paid),
        (InvoiceKind::Invoice, total, InvoiceStatus::Paid),
    ];
    assert_eq!(kinds, wanted);
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    assert_eq!(bench.current(&account).await.unwrap().period, 1, "the next month comes at its time");
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_back_that_is_not_paid_again_ends_the_subscription() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Failed;
    let total = bench.provider.last().total;
    bench.provider.reverse(&id, ReversalKind::Chargeback, total, ReversalState::Done);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    bench.days(20).await;
    assert_eq!(bench.current(&account).await, None);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_back_of_an_earlier_month_is_credited_alone() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("NL", "pro").await;
    let total = bench.provider.last().total;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    bench.provider.reverse(&id, ReversalKind::Chargeback, total, ReversalState::Done);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    bench.days(2).await;
    assert_eq!(bench.current(&account).await.unwrap().status, SubscriptionStatus::Active);
    assert_eq!(bench.invoices(&account).await.len(), 3);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_back_that_is_reversed_pays_its_month_again() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("NL", "pro").await;
    let total = bench.provider.last().total;
    bench.provider.reverse(&id, ReversalKind::Chargeback, total, ReversalState::Done);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    bench.provider.move_reversals(ReversalState::Done, ReversalState::Canceled);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.due_period), (SubscriptionStatus::Active, 1));
    bench.days(2).await;
    assert_eq!(bench.provider.known().payments.len(), 1);
    assert_eq!(bench.invoices(&account).await.len(), 3);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn refunds_are_credited_to_the_cent_once_the_money_is_gone() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("FI", "pro").await;
    let invoice = bench.invoices(&account).await.remove(0);
    let part = Cents(invoice.total_cents.0 / 3);
    // The first response is lost; the job repeats the request, and the provider makes one refund.
    bench.provider.known().faults.push_back(ProviderFault::AnswerLost);
    refund(&bench.app, &invoice.id, part, "goodwill").await.unwrap();
    bench.pass(DAY / 24);
    bench.work().await;
    refund(&bench.app, &invoice.id, part, "goodwill").await.unwrap();
    assert_eq!(bench.invoices(&account).await.len(), 1, "nothing is credited before it is gone");
    refund(&bench.app, &invoice.id, invoice.total_cents, "too much").await.unwrap_err();
    bench.provider.move_reversals(ReversalState::Pending, ReversalState::Done);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    let rest = Cents(invoice.total_cents.0 - 2 * part.0);
    refund(&bench.app, &invoice.id, rest, "all").await.unwrap();
    bench.provider.move_reversals(ReversalState::Pending, ReversalState::Done);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    let issued = bench.invoices(&account).await;
    let notes: Vec<_> = issued.iter().filter(|issued| issued.kind == InvoiceKind::CreditNote).collect();
    let sum = |part: fn(&db::billing::invoices::Invoice) -> i64| notes.iter().map(|note| part(note)).sum::<i64>();
    assert_eq!(notes.len(), 3);
    assert_eq!((sum(|n| n.net_cents.0), sum(|n| n.vat_cents.0)), (invoice.net_cents.0, invoice.vat_cents.0));
    assert_eq!(issued[0].status, InvoiceStatus::Refunded);
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"), "a refund ends nothing");
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_refund_that_is_called_off_leaves_the_invoice_as_it_is() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("NL", "pro").await;
    let invoice = bench.invoices(&account).await.remove(0);
    refund(&bench.app, &invoice.id, Cents(100), "goodwill").await.unwrap();
    refund(&bench.app, &invoice.id, Cents(200), "goodwill").await.unwrap();
    // One is cancelled, the other vanishes from the provider's list.
    bench.provider.move_reversals(ReversalState::Pending, ReversalState::Canceled);
    bench.provider.known().payments[0].reversals.pop();
    bench.pass(DAY);
    poll_by_provider_id(&bench.app, &id).await.unwrap();
    assert_eq!(bench.count("SELECT count(*) FROM payment_reversals WHERE state = 'canceled'").await, 2);
    assert_eq!(bench.invoices(&account).await, std::slice::from_ref(&invoice));
    refund(&bench.app, &invoice.id, invoice.total_cents, "all").await.unwrap();
    bench.assert_reconciled().await;
    bench.stop().await;
}
