//! Money that arrives after its subscription ended: it buys the rest of its month, or is refunded whole.

use domain::{
    Account,
    billing::{
        Cents,
        payment::{PaymentState, ReversalKind, ReversalState},
        subscription::{EndReason, SubscriptionStatus},
    },
};

use super::{Bench, payer};
use crate::{cancel, poll_by_provider_id};

/// Returns a subscriber whose first month was charged back and could not be charged again, so that the subscription
/// ended.
async fn lapsed_by_charge_back(bench: &Bench) -> (Account, String) {
    let (account, id) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Failed;
    take_back(bench, &id).await;
    bench.days(17).await;
    assert_eq!(bench.current(&account).await, None);
    (account, id)
}

async fn take_back(bench: &Bench, id: &str) {
    let total: Cents = bench.provider.last().total;
    bench.provider.reverse(id, ReversalKind::Chargeback, total, ReversalState::Done);
    poll_by_provider_id(&bench.app, id).await.unwrap();
}

async fn give_back(bench: &Bench, id: &str) {
    bench.provider.move_reversals(ReversalState::Done, ReversalState::Canceled);
    poll_by_provider_id(&bench.app, id).await.unwrap();
    poll_by_provider_id(&bench.app, id).await.unwrap();
}

/// Returns a subscriber whose renewal failed at every attempt.
async fn lapsed_unpaid(bench: &Bench) -> (Account, String) {
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Failed;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    bench.days(17).await;
    assert_eq!(bench.current(&account).await, None);
    (account, bench.provider.last().id)
}

#[tokio::test]
async fn what_comes_back_within_its_month_revives_the_subscription() {
    let bench = Bench::start().await;
    let (account, id) = lapsed_by_charge_back(&bench).await;
    give_back(&bench, &id).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.period, current.end_reason), (SubscriptionStatus::Active, 0, None));
    assert_eq!((current.next_attempt_at, current.due_period), (current.period_end, 1));
    bench.provider.known().recurring = PaymentState::Paid;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    assert_eq!(bench.current(&account).await.unwrap().period, 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn what_comes_back_after_its_month_is_given_back() {
    let bench = Bench::start().await;
    let (account, id) = lapsed_by_charge_back(&bench).await;
    bench.days(20).await;
    give_back(&bench, &id).await;
    bench.work().await;
    assert_eq!(bench.current(&account).await, None);
    assert_eq!(bench.provider.calls("refund"), 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn what_comes_back_beside_another_subscription_is_given_back() {
    let bench = Bench::start().await;
    let (account, id) = lapsed_by_charge_back(&bench).await;
    let again = bench.begin(&account, "business").await;
    bench.pay(&again).await;
    give_back(&bench, &id).await;
    bench.work().await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("business"));
    assert_eq!(bench.provider.calls("refund"), 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn what_comes_back_after_a_cancellation_buys_the_rest_of_the_month_alone() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("NL", "pro").await;
    cancel(&bench.app, db::audit::Actor::Platform, &payer(&account)).await.unwrap();
    take_back(&bench, &id).await;
    assert_eq!(bench.current(&account).await, None);
    give_back(&bench, &id).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.cancel_at_period_end), (SubscriptionStatus::Active, true));
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    assert_eq!(bench.current(&account).await, None);
    assert_eq!(bench.provider.known().payments.len(), 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_month_that_was_had_whole_keeps_its_money() {
    let bench = Bench::start().await;
    let (account, id) = bench.subscriber("NL", "pro").await;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    take_back(&bench, &id).await;
    bench.days(40).await;
    assert_eq!(bench.current(&account).await, None, "nobody has another month on credit");
    give_back(&bench, &id).await;
    bench.work().await;
    assert_eq!(bench.provider.calls("refund"), 0);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_late_payment_after_its_month_is_given_back() {
    let bench = Bench::start().await;
    let (account, last) = lapsed_unpaid(&bench).await;
    bench.days(20).await;
    bench.pay(&last).await;
    bench.work().await;
    assert_eq!(bench.current(&account).await, None);
    assert_eq!((bench.provider.calls("refund"), bench.invoices(&account).await.len()), (1, 2));
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_late_payment_beside_another_subscription_is_given_back() {
    let bench = Bench::start().await;
    let (account, last) = lapsed_unpaid(&bench).await;
    let again = bench.begin(&account, "pro").await;
    bench.pay(&again).await;
    bench.pay(&last).await;
    bench.work().await;
    assert_eq!(bench.count("SELECT count(*) FROM subscriptions WHERE status = 'active'").await, 1);
    assert_eq!((bench.provider.calls("refund"), bench.entitled(&account).await.as_deref()), (1, Some("pro")));
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_late_payment_buys_its_month_beside_a_checkout_that_waits() {
    let bench = Bench::start().await;
    let (account, last) = lapsed_unpaid(&bench).await;
    let again = bench.begin(&account, "business").await;
    bench.pay(&last).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((&*current.plan, current.status, current.period), ("pro", SubscriptionStatus::Active, 1));
    bench.pay(&again).await;
    bench.work().await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    assert_eq!(bench.provider.calls("refund"), 1);
    let unpaid = "SELECT count(*) FROM subscriptions WHERE end_reason = 'unpaid'";
    assert_eq!((bench.count(unpaid).await, current.end_reason), (0, None::<EndReason>));
    bench.assert_reconciled().await;
    bench.stop().await;
}
