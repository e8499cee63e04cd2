//! Repeated checkouts: an account has one pending subscription, and every payment is accounted for.

use domain::billing::{payment::PaymentState, subscription::SubscriptionStatus};

use super::Bench;

const PENDING: &str = "SELECT count(*) FROM subscriptions WHERE status = 'pending'";

/// Returns a person who has started a checkout, changed their details, and started it again, with the ids of both
/// payments.
async fn begun_twice(bench: &Bench) -> (domain::Account, [String; 2]) {
    let account = bench.person("NL").await;
    let first = bench.begin(&account, "pro").await;
    bench.move_to(&account, "BE", None).await;
    let second = bench.begin(&account, "pro").await;
    assert_ne!(first, second, "the terms are others");
    (account, [first, second])
}

#[tokio::test]
async fn a_checkout_takes_the_place_of_the_one_before() {
    let bench = Bench::start().await;
    let account = bench.person("NL").await;
    for country in ["NL", "BE", "DE", "FR", "NL", "BE"] {
        bench.move_to(&account, country, None).await;
        bench.begin(&account, "pro").await;
        assert_eq!(bench.count(PENDING).await, 1, "{country}");
    }
    assert_eq!(bench.count("SELECT count(*) FROM subscriptions WHERE end_reason = 'replaced'").await, 5);
    let current = bench.current(&account).await.unwrap();
    assert_eq!(current.status, SubscriptionStatus::Pending);
    // A replaced payment ends once, and sends no letter.
    let ids: Vec<_> = bench.provider.known().payments.iter().map(|payment| payment.id.clone()).collect();
    for id in ids {
        bench.turn(&id, PaymentState::Expired).await;
    }
    assert_eq!((bench.count(PENDING).await, bench.letters("subscription_ended").await), (0, 0));
    assert_eq!(bench.count("SELECT count(*) FROM subscriptions WHERE end_reason = 'replaced'").await, 5);
    bench.stop().await;
}

#[tokio::test]
async fn both_checkouts_paid_in_either_order_give_one_plan_and_one_refund() {
    for order in [[0, 1], [1, 0]] {
        let bench = Bench::start().await;
        let (account, ids) = begun_twice(&bench).await;
        for place in order {
            bench.pay(&ids[place]).await;
            bench.work().await;
        }
        assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
        assert_eq!(bench.count("SELECT count(*) FROM payments WHERE state = 'paid' AND covers").await, 1);
        assert_eq!((bench.invoices(&account).await.len(), bench.provider.calls("refund")), (2, 1));
        assert_eq!(bench.count(PENDING).await, 0);
        let covering = "SELECT count(*) FROM payments p JOIN subscriptions s ON s.id = p.subscription_id
                        WHERE p.covers AND p.state = 'paid' AND s.status = 'active' AND s.end_reason IS NULL";
        assert_eq!(bench.count(covering).await, 1);
        bench.assert_reconciled().await;
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_checkout_that_was_replaced_and_is_the_only_one_paid_counts() {
    let bench = Bench::start().await;
    let (account, [first, second]) = begun_twice(&bench).await;
    bench.pay(&first).await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    bench.turn(&second, PaymentState::Expired).await;
    bench.work().await;
    assert_eq!(bench.entitled(&account).await.as_deref(), Some("pro"));
    assert_eq!((bench.count(PENDING).await, bench.provider.calls("refund")), (0, 0));
    bench.assert_reconciled().await;
    bench.stop().await;
}
