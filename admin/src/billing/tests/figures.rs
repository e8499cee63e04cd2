//! Figures, which take minutes: `cargo nextest run --workspace --run-ignored only -E 'test(billing::tests::figures)'`.

use std::time::{Duration, Instant};

use super::{Bench, at};
use crate::billing::renew_due;

/// Subscriptions that renew in the same night.
const SUBSCRIPTIONS: i32 = 100_000;
/// The time that the provider takes for an answer.
const LATENCY: Duration = Duration::from_millis(50);
/// The longest run.
const WITHIN: Duration = Duration::from_mins(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn a_night_of_renewals_takes_less_than_half_an_hour() {
    let bench = Bench::with_latency(LATENCY).await;
    subscribe(&bench, SUBSCRIPTIONS).await;
    bench.set_time("2026-12-23T10:00:00Z");
    let start = Instant::now();
    let mut renewed = 0;
    loop {
        let batch = renew_due(&bench.app, 200).await.unwrap();
        renewed += batch;
        if batch == 0 {
            break;
        }
    }
    let took = start.elapsed();
    assert_eq!((renewed, bench.provider.calls("create_payment")), (100_000, 100_000));
    assert_eq!(bench.count("SELECT count(*) FROM payments WHERE state = 'paid' AND period = 1").await, 100_000);
    assert_eq!(bench.count("SELECT max(last)::bigint FROM invoice_numbers").await, 100_000);
    assert!(took < WITHIN, "{took:?}");
    bench.stop().await;
}

/// People with a subscription that is paid until 23 December 2026, as rows.
async fn subscribe(bench: &Bench, count: i32) {
    let start = at("2026-11-23T10:00:00Z");
    let statements = [
        "INSERT INTO users (id, vcs_id, vcs_login, email, created_at)
         SELECT 'usr_' || lpad(n::text, 20, '0'), 'v' || n, 'v' || n, 'v' || n || '@example.com', $2
         FROM generate_series(1, $1) n",
        "INSERT INTO billing_profiles (account, name, country, updated_at)
         SELECT 'usr_' || lpad(n::text, 20, '0'), 'Ada', 'NL', $2 FROM generate_series(1, $1) n",
        "INSERT INTO billing_customers (account, provider, customer_id, created_at)
         SELECT 'usr_' || lpad(n::text, 20, '0'), 'mollie', 'cst_' || n, $2 FROM generate_series(1, $1) n",
        "INSERT INTO subscriptions (id, account, plan, status, anchored_at, period_start, period_end, due_period,
                                    next_attempt_at, created_at)
         SELECT 'sub_' || lpad(n::text, 20, '0'), 'usr_' || lpad(n::text, 20, '0'), 'pro', 'active', $2, $2,
                $2 + interval '1 month', 1, $2 + interval '1 month', $2
         FROM generate_series(1, $1) n",
    ];
    for statement in statements {
        sqlx::query(statement).bind(count).bind(start).execute(&bench.app.db).await.unwrap();
    }
}
