//! Random histories: every cent is accounted for in any order of events.

use std::time::Duration;

use ::payments::{MandateState, ProviderPayment};
use db::audit::Actor;
use domain::{
    Account,
    billing::{
        Cents,
        invoice::InvoiceKind,
        payment::{PaymentState, ReversalKind, ReversalState},
    },
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::{Bench, DAY, payer, provider::ProviderFault};
use crate::{InvoiceContent, cancel, change_plan, checkout, poll_by_provider_id, poll_due, refund, renew_due, resume};

const HISTORIES: u32 = 24;
const STEPS: std::ops::Range<usize> = 5..40;

#[derive(Debug, Clone)]
pub(super) enum HistoryStep {
    Checkout(&'static str),
    Turn(usize, PaymentState),
    Tell(usize),
    Renew,
    Look,
    Pass(u32),
    Change(&'static str),
    Move(&'static str, Option<&'static str>),
    Cancel,
    Resume,
    Refund(usize, i64),
    TakeBack(usize),
    MoveReversals(ReversalState, ReversalState),
    Recurring(PaymentState),
    Mandate(MandateState),
    Fail(ProviderFault),
}

/// Countries, with VAT numbers. The rates of the last three change within the years of [`super::years`].
const BUYERS: [(&str, Option<&str>); 7] = [
    ("NL", None),
    ("NL", Some("NL123456789B01")),
    ("DE", Some("DE123456789")),
    ("US", None),
    ("EE", None),
    ("FI", None),
    ("SK", None),
];

fn step() -> impl Strategy<Value = HistoryStep> {
    prop_oneof![
        29 => happening(),
        5 => Just(HistoryStep::Renew),
        5 => Just(HistoryStep::Look),
        6 => (1..40_u32).prop_map(HistoryStep::Pass),
    ]
}

/// The acts of people, banks and the provider; time and the jobs are paused meanwhile.
pub(super) fn happening() -> impl Strategy<Value = HistoryStep> {
    let plan = || prop::sample::select(vec!["pro", "business"]);
    let end = || {
        use PaymentState::{Canceled, Expired, Failed, Open, Paid};
        prop::sample::select(vec![Paid, Paid, Paid, Failed, Canceled, Expired, Open])
    };
    prop_oneof![
        4 => plan().prop_map(HistoryStep::Checkout),
        6 => (0..8_usize, end()).prop_map(|(place, state)| HistoryStep::Turn(place, state)),
        5 => (0..8_usize).prop_map(HistoryStep::Tell),
        2 => plan().prop_map(HistoryStep::Change),
        1 => buyer().prop_map(|(country, number)| HistoryStep::Move(country, number)),
        1 => Just(HistoryStep::Cancel),
        1 => Just(HistoryStep::Resume),
        2 => (0..8_usize, 1..3_000_i64).prop_map(|(place, cents)| HistoryStep::Refund(place, cents)),
        2 => (0..8_usize).prop_map(HistoryStep::TakeBack),
        3 => Just(HistoryStep::MoveReversals(ReversalState::Pending, ReversalState::Done)),
        1 => Just(HistoryStep::MoveReversals(ReversalState::Pending, ReversalState::Canceled)),
        1 => Just(HistoryStep::MoveReversals(ReversalState::Done, ReversalState::Canceled)),
        2 => prop::sample::select(vec![PaymentState::Paid, PaymentState::Open, PaymentState::Failed])
            .prop_map(HistoryStep::Recurring),
        1 => prop::sample::select(vec![MandateState::Valid, MandateState::Valid, MandateState::Pending, MandateState::Missing])
            .prop_map(HistoryStep::Mandate),
        3 => prop::sample::select(vec![ProviderFault::Away, ProviderFault::AnswerLost, ProviderFault::Busy]).prop_map(HistoryStep::Fail),
    ]
}

pub(super) fn buyer() -> impl Strategy<Value = (&'static str, Option<&'static str>)> {
    prop::sample::select(BUYERS.to_vec())
}

#[test]
fn every_cent_of_a_random_history_is_accounted_for() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bench = runtime.block_on(Bench::start());
    let config = Config { cases: HISTORIES, failure_persistence: None, max_shrink_iters: 40, ..Config::default() };
    let ran = TestRunner::new(config).run(&vec(step(), STEPS), |steps| {
        runtime.block_on(live(&bench, &steps));
        Ok(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
    runtime.block_on(bench.stop());
}

async fn live(bench: &Bench, steps: &[HistoryStep]) {
    forget(bench).await;
    let account = bench.person("NL").await;
    for step in steps {
        take(bench, &account, step).await;
        assert_sound(bench, &account).await;
    }
    come_to_rest(bench, &account).await;
}

/// Lets faults cease and pending work end, after which the ledger equals the provider's.
pub(super) async fn come_to_rest(bench: &Bench, account: &Account) {
    {
        let mut known = bench.provider.known();
        known.faults.clear();
        known.mandate = MandateState::Valid;
        known.recurring = PaymentState::Paid;
        for payment in &mut known.payments {
            if payment.state == PaymentState::Open {
                payment.state = PaymentState::Expired;
            }
        }
    }
    // A cancelled subscription charges nothing more.
    let _ = cancel(&bench.app, Actor::Platform, &payer(account)).await;
    for _ in 0..6 {
        bench.pass(DAY * 7);
        bench.work().await;
        bench.provider.move_reversals(ReversalState::Pending, ReversalState::Done);
        tell_all(bench).await;
        assert_sound(bench, account).await;
    }
    assert_equal_to_provider(bench, account).await;
}

pub(super) async fn take(bench: &Bench, account: &Account, step: &HistoryStep) {
    let app = &bench.app;
    let payments: Vec<ProviderPayment> = bench.provider.known().payments.clone();
    let at = |place: usize| payments.iter().rev().nth(place).cloned();
    match *step {
        HistoryStep::Checkout(plan) => drop(checkout(app, Actor::Platform, &payer(account), plan).await),
        HistoryStep::Turn(place, state) => {
            // A provider never returns a payment to an earlier state, but may report one as paid after all.
            let may = |from: PaymentState| {
                from == PaymentState::Open || (from != PaymentState::Paid && state == PaymentState::Paid)
            };
            if let Some(payment) = at(place).filter(|payment| may(payment.state)) {
                bench.provider.set(&payment.id, state);
            }
        }
        HistoryStep::Tell(place) => {
            if let Some(payment) = at(place) {
                let _ = poll_by_provider_id(app, &payment.id).await;
            }
        }
        HistoryStep::Renew => {
            renew_due(app, 10).await.unwrap();
        }
        HistoryStep::Look => {
            poll_due(app, 50).await.unwrap();
        }
        HistoryStep::Pass(days) => bench.pass(DAY * days + Duration::from_secs(7)),
        HistoryStep::Change(plan) => drop(change_plan(app, Actor::Platform, &payer(account), plan).await),
        HistoryStep::Move(country, number) => bench.move_to(account, country, number).await,
        HistoryStep::Cancel => drop(cancel(app, Actor::Platform, &payer(account)).await),
        HistoryStep::Resume => drop(resume(app, Actor::Platform, &payer(account)).await),
        HistoryStep::Refund(place, cents) => {
            let issued = bench.invoices(account).await;
            let of_kind = issued.iter().filter(|invoice| invoice.kind == InvoiceKind::Invoice);
            if let Some(invoice) = of_kind.rev().nth(place) {
                let _ = refund(app, &invoice.id, Cents(cents), "random").await;
            }
        }
        HistoryStep::TakeBack(place) => {
            let is_whole = |payment: &ProviderPayment| {
                payment.state == PaymentState::Paid
                    && payment.reversals.iter().all(|reversal| reversal.state == ReversalState::Canceled)
            };
            if let Some(payment) = at(place).filter(is_whole) {
                bench.provider.reverse(&payment.id, ReversalKind::Chargeback, payment.total, ReversalState::Done);
            }
        }
        HistoryStep::MoveReversals(from, to) => bench.provider.move_reversals(from, to),
        HistoryStep::Recurring(state) => bench.provider.known().recurring = state,
        HistoryStep::Mandate(mandate) => bench.provider.known().mandate = mandate,
        HistoryStep::Fail(fault) => bench.provider.known().faults.push_back(fault),
    }
}

async fn tell_all(bench: &Bench) {
    let ids: Vec<String> = bench.provider.known().payments.iter().map(|payment| payment.id.clone()).collect();
    for id in ids {
        poll_by_provider_id(&bench.app, &id).await.unwrap();
    }
}

pub(super) async fn assert_sound(bench: &Bench, account: &Account) {
    bench.assert_reconciled_within().await;
    for invoice in bench.invoices(account).await {
        let content: InvoiceContent = serde_json::from_value(invoice.content.clone()).unwrap();
        let lines: Cents = content.lines.iter().map(|line| line.net).sum();
        assert_eq!((lines, content.amounts), (invoice.net_cents, invoice.amounts()), "{}", invoice.number);
    }
    // The charges that may move money for one month and are not refunded.
    let doubled = "SELECT count(*) FROM (SELECT 1 FROM payments p WHERE state IN ('intended', 'open', 'paid')
                     AND NOT EXISTS (SELECT FROM payment_reversals r WHERE r.payment_id = p.id AND r.state <> 'canceled')
                     AND covers GROUP BY subscription_id, period HAVING count(*) > 1) d";
    assert_eq!(bench.count(doubled).await, 0);
    let surplus = "SELECT count(*) FROM payments p WHERE state = 'paid' AND NOT covers
                     AND NOT EXISTS (SELECT FROM payment_reversals r WHERE r.payment_id = p.id)";
    assert_eq!(bench.count(surplus).await, 0, "money without entitlement or refund");
    let balance = "SELECT (COALESCE((SELECT sum(total_cents) FROM payments WHERE state = 'paid'), 0)
                     - COALESCE((SELECT sum(total_cents) FROM payment_reversals WHERE state = 'done'), 0)
                     - COALESCE((SELECT sum(CASE kind WHEN 'invoice' THEN total_cents ELSE -total_cents END)
                                 FROM invoices), 0))::bigint";
    assert_eq!(bench.count(balance).await, 0, "paid less given back is invoiced less credited");
}

async fn assert_equal_to_provider(bench: &Bench, account: &Account) {
    let known = bench.provider.known().payments.clone();
    let issued = bench.invoices(account).await;
    let paid = known.iter().filter(|payment| payment.state == PaymentState::Paid);
    let paid: Vec<_> = paid.filter(|payment| payment.total.0 > 0).collect();
    let back = |payment: &&ProviderPayment| {
        let done = payment.reversals.iter().filter(|reversal| reversal.state == ReversalState::Done);
        done.map(|reversal| reversal.total.0).sum::<i64>()
    };
    let held: i64 = paid.iter().map(|payment| payment.total.0 - back(payment)).sum();
    let booked = issued.iter().map(|invoice| match invoice.kind {
        InvoiceKind::Invoice => invoice.total_cents.0,
        InvoiceKind::CreditNote => -invoice.total_cents.0,
    });
    assert_eq!(booked.sum::<i64>(), held, "what the provider holds is what is booked");
    let originals = issued.iter().filter(|invoice| invoice.kind == InvoiceKind::Invoice && invoice.restores.is_none());
    assert_eq!(originals.count(), paid.len(), "one invoice for a payment that was paid");
}

pub(super) async fn forget(bench: &Bench) {
    let tables = "TRUNCATE letters, invoice_documents, invoices, invoice_numbers, payment_reversals, payments,
                  subscriptions, billing_customers, billing_profiles, route_changes";
    sqlx::query(tables).execute(&bench.app.db).await.unwrap();
    let mut known = bench.provider.known();
    known.payments.clear();
    known.faults.clear();
    (known.recurring, known.mandate) = (PaymentState::Paid, MandateState::Valid);
}
