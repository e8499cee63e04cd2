//! Batches of renewals with one row that fails.

use super::{Bench, DAY, at};
use crate::renew_due;

async fn spoil(bench: &Bench, account: &domain::Account, address: Option<&str>) {
    let spoilt = sqlx::query("UPDATE billing_profiles SET address = $2::jsonb WHERE account = $1");
    spoilt.bind(account.as_str()).bind(address).execute(&bench.app.db).await.unwrap();
}

#[tokio::test]
async fn a_row_that_fails_is_put_off_and_the_others_are_renewed() {
    let bench = Bench::start().await;
    let mut accounts = Vec::new();
    for _ in 0..5 {
        accounts.push(bench.subscriber("NL", "pro").await.0);
    }
    spoil(&bench, &accounts[1], Some(r#"{"street": "Keizersgracht"}"#)).await;
    bench.set_time("2026-12-23T10:00:00Z");
    bench.work().await;
    let next = async |place: usize| bench.current(&accounts[place]).await.unwrap().next_attempt_at.unwrap();
    for place in [0, 2, 3, 4] {
        assert_eq!(bench.current(&accounts[place]).await.unwrap().period, 1);
    }
    assert_eq!(bench.current(&accounts[1]).await.unwrap().period, 0);
    assert_eq!(bench.entitled(&accounts[1]).await.as_deref(), Some("pro"), "it is nobody's fault but ours");
    let first = next(1).await.since(bench.now());
    // The pauses grow, up to some hours.
    bench.pass(DAY * 3);
    bench.work().await;
    let later = next(1).await.since(bench.now());
    assert!(!first.is_zero() && later > first && later < DAY, "{first:?} {later:?}");
    spoil(&bench, &accounts[1], None).await;
    bench.pass(later);
    bench.work().await;
    assert_eq!(bench.current(&accounts[1]).await.unwrap().period, 1);
    bench.assert_reconciled().await;
    bench.stop().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_put_off_as_well() {
    let bench = Bench::start().await;
    let (bad, _) = bench.subscriber("NL", "pro").await;
    let (good, _) = bench.subscriber("NL", "pro").await;
    // A newer program may leave states that this one does not know.
    for spoil in [
        "ALTER TABLE subscriptions DROP CONSTRAINT subscriptions_end_reason_check",
        "UPDATE subscriptions SET end_reason = 'paused' WHERE account = (SELECT min(account) FROM subscriptions)",
    ] {
        sqlx::query(spoil).execute(&bench.app.db).await.unwrap();
    }
    let (bad, good) = if bad.as_str() < good.as_str() { (bad, good) } else { (good, bad) };
    bench.set_time("2026-12-23T10:00:00Z");
    assert_eq!(renew_due(&bench.app, 100).await.unwrap(), 2);
    let put_off = sqlx::query_scalar("SELECT next_attempt_at FROM subscriptions WHERE account = $1");
    let put_off: domain::Timestamp = put_off.bind(bad.as_str()).fetch_one(&bench.app.db).await.unwrap();
    assert!(put_off > at("2026-12-23T10:00:00Z"));
    // On a busy machine, a charge whose response was lost is polled later.
    bench.pass(DAY);
    bench.work().await;
    assert_eq!(bench.current(&good).await.unwrap().period, 1);
    assert_eq!(renew_due(&bench.app, 100).await.unwrap(), 0);
    bench.stop().await;
}
