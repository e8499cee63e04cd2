//! A night in which very many subscriptions renew, and admin is killed in the midst of it.

use std::time::{Duration, Instant};

use super::{print, provider::SlowProvider};
use crate::world::{World, eventually, process::Process};

/// Subscriptions that renew in the same night.
const SUBSCRIPTIONS: usize = 100_000;
/// The time that the provider takes for an answer.
const LATENCY: Duration = Duration::from_millis(50);
/// The times that admin is killed.
const KILLS: usize = 2;
/// Charges that are recorded already when admin is killed, at most: others than the next admin makes under a lease of its own.
const RECORDED: usize = 400;
/// The longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_hours(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only billing`"]
async fn night_of_renewals() {
    let provider = SlowProvider::start(LATENCY).await;
    let builder = World::builder().edges(0).mollie_at(&provider.url).set("POSTGRES__MAX_CONNECTIONS", 20);
    let mut world = builder.start().await;
    world.admin.kill();
    subscribe(&world).await;
    let start = Instant::now();
    let (mut still, mut cpu) = (Duration::ZERO, Duration::ZERO);
    let mut admin: Process = world.start_another_admin();
    for kill in 1..=KILLS {
        charged(&provider, SUBSCRIPTIONS * kill / (KILLS + 1)).await;
        cpu += admin.cpu();
        admin.kill();
        let (killed, made) = (Instant::now(), provider.charges());
        admin = world.start_another_admin();
        charged(&provider, made + RECORDED).await;
        still += killed.elapsed();
    }
    charged(&provider, SUBSCRIPTIONS).await;
    eventually(PATIENCE, "every month is paid", async || world.sql_number(UNPAID).await == 0).await;
    let (took, rendered) = (start.elapsed(), world.sql_number("SELECT count(*) FROM invoice_documents").await);
    cpu += admin.cpu();
    let once = usize::try_from(world.sql_number(ONCE).await).unwrap();
    let numbered = usize::try_from(world.sql_number("SELECT max(last)::bigint FROM invoice_numbers").await).unwrap();
    assert_eq!((provider.charges(), numbered), (SUBSCRIPTIONS, SUBSCRIPTIONS));
    assert_eq!((provider.charged_once(), once), (SUBSCRIPTIONS, SUBSCRIPTIONS));
    print(&format!(
        "| {SUBSCRIPTIONS} | {KILLS} | {} | {} | {} | {} | {once} | {:.0} | {rendered} |",
        minutes(took),
        minutes(still),
        provider.calls(),
        provider.charged_once(),
        cpu.as_secs_f64(),
    ));
}

/// Waits until the provider has made so many charges.
async fn charged(provider: &SlowProvider, count: usize) {
    eventually(PATIENCE, "the provider is asked", async || provider.charges() >= count).await;
}

fn minutes(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() / 60.0)
}

/// Counts the subscriptions that still wait for the payment of their new month.
const UNPAID: &str = "SELECT count(*) FROM subscriptions WHERE period <> 1";

/// Counts the subscriptions with one payment and one invoice for their new month.
const ONCE: &str = "SELECT count(*) FROM (
                        SELECT p.subscription_id FROM payments p JOIN invoices i ON i.payment_id = p.id
                        WHERE p.state = 'paid' AND p.period = 1 GROUP BY p.subscription_id HAVING count(*) = 1) once";

/// People with a subscription of which the paid month has just ended, as rows.
async fn subscribe(world: &World) {
    let people = format!("generate_series(1, {SUBSCRIPTIONS}) n");
    world
        .sql(&format!(
            "INSERT INTO users (id, vcs_id, vcs_login, email, created_at)
             SELECT 'usr_' || lpad(n::text, 20, '0'), 'v' || n, 'v' || n, 'v' || n || '@example.com', now() FROM {people};
             INSERT INTO billing_profiles (account, name, country, updated_at)
             SELECT 'usr_' || lpad(n::text, 20, '0'), 'Ada', 'NL', now() FROM {people};
             INSERT INTO billing_customers (account, provider, customer_id, created_at)
             SELECT 'usr_' || lpad(n::text, 20, '0'), 'mollie', 'cst_' || n, now() FROM {people};
             INSERT INTO subscriptions (id, account, plan, status, anchored_at, period_start, period_end, due_period,
                                        next_attempt_at, created_at)
             SELECT 'sub_' || lpad(n::text, 20, '0'), 'usr_' || lpad(n::text, 20, '0'), 'pro', 'active',
                    now() - interval '1 month', now() - interval '1 month', now(), 1, now(), now() - interval '1 month'
             FROM {people}"
        ))
        .await;
    world.sql("ANALYZE").await;
}
