//! Charges with an unknown outcome: lost responses, payments that the provider does not know, a replaced provider.

use ::payments::MandateState;
use domain::billing::{payment::PaymentState, subscription::SubscriptionStatus};

use super::{Bench, DAY, provider::ProviderFault};
use crate::{poll_due, renew_due};

/// Returns a subscriber whose renewal the provider has made, but whose response was lost.
async fn with_lost_answer(bench: &Bench) -> domain::Account {
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.set_time("2026-12-23T10:00:00Z");
    // The first payment is polled now, so that it takes no part in the fault.
    poll_due(&bench.app, 10).await.unwrap();
    bench.provider.call_ok_then(ProviderFault::AnswerLost);
    renew_due(&bench.app, 10).await.unwrap();
    assert_eq!(bench.count("SELECT count(*) FROM payments WHERE state = 'intended'").await, 1);
    account
}

#[tokio::test]
async fn a_lost_charge_is_found_though_the_mandate_was_withdrawn() {
    let bench = Bench::start().await;
    let account = with_lost_answer(&bench).await;
    bench.provider.known().mandate = MandateState::Missing;
    bench.days(3).await;
    assert_eq!(bench.provider.known().payments.len(), 2);
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.period), (SubscriptionStatus::Active, 1));
    assert_eq!((bench.invoices(&account).await.len(), bench.letters("payment_failed").await), (2, 0));
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_lost_charge_is_found_though_it_is_refused_when_repeated() {
    let bench = Bench::start().await;
    let account = with_lost_answer(&bench).await;
    bench.provider.known().refuses = true;
    bench.days(3).await;
    assert_eq!(bench.current(&account).await.unwrap().period, 1);
    assert_eq!(bench.letters("payment_failed").await, 0);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_is_not_failed_while_nobody_answers_whether_it_was_made() {
    let bench = Bench::start().await;
    let account = with_lost_answer(&bench).await;
    bench.provider.known().mandate = MandateState::Missing;
    bench.pass(DAY / 4);
    // The mandate request succeeds, the search fails.
    bench.provider.call_ok_then(ProviderFault::Away);
    poll_due(&bench.app, 10).await.unwrap();
    assert_eq!(bench.current(&account).await.unwrap().status, SubscriptionStatus::Active);
    bench.days(1).await;
    assert_eq!(bench.current(&account).await.unwrap().period, 1);
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_that_was_never_made_fails_without_a_mandate() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().mandate = MandateState::Missing;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    assert_eq!(bench.current(&account).await.unwrap().status, SubscriptionStatus::PastDue);
    assert_eq!(bench.letters("payment_failed").await, 1);
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_that_the_provider_forgot_shows_and_fails_after_two_weeks() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Open;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    let forgotten = bench.provider.known().payments.pop().unwrap();
    bench.days(1).await;
    let shown = "SELECT count(*) FROM payments WHERE difference IS NOT NULL AND state = 'open'";
    assert_eq!(bench.count(shown).await, 1, "it shows at once");
    assert_eq!(bench.current(&account).await.unwrap().status, SubscriptionStatus::Active);
    // The provider knows it again: nothing has happened.
    bench.provider.known().payments.push(forgotten);
    bench.days(1).await;
    assert_eq!(bench.count(shown).await, 0);
    let forgotten = bench.provider.known().payments.pop().unwrap();
    bench.provider.known().recurring = PaymentState::Paid;
    bench.days(13).await;
    assert_eq!(bench.current(&account).await.unwrap().status, SubscriptionStatus::Active);
    bench.days(2).await;
    assert_eq!(bench.letters("payment_failed").await, 1);
    bench.days(2).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.period), (SubscriptionStatus::Active, 1), "charged anew");
    // If it is found and paid, its money is refunded.
    bench.provider.known().payments.push(forgotten.clone());
    bench.pay(&forgotten.id).await;
    bench.work().await;
    assert_eq!(bench.provider.calls("refund"), 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_charge_of_a_provider_that_was_exchanged_shows_and_fails_after_two_weeks() {
    let bench = Bench::start().await;
    let (account, _) = bench.subscriber("NL", "pro").await;
    bench.provider.known().recurring = PaymentState::Open;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    // As the rows of another installation of the same program would be.
    let exchanged = "UPDATE payments SET provider = 'play' WHERE state = 'open'";
    sqlx::query(exchanged).execute(&bench.app.db).await.unwrap();
    bench.provider.known().recurring = PaymentState::Paid;
    bench.days(1).await;
    assert_eq!(bench.count("SELECT count(*) FROM payments WHERE difference IS NOT NULL").await, 1);
    bench.days(17).await;
    let current = bench.current(&account).await.unwrap();
    assert_eq!((current.status, current.period), (SubscriptionStatus::Active, 1), "charged at the present provider");
    bench.assert_reconciled().await;
    bench.stop().await;
}
