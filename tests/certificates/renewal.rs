//! Renewal: when the authority says, and by the account that the certificate was issued to.

use super::{DOMAIN, Stage};
use crate::{BACKGROUND, world::eventually};

#[tokio::test]
async fn a_window_that_is_pulled_forward_replaces_the_certificate_at_once() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| mood.renew_in_days(365));
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let renews = format!(
        "SELECT count(*) FROM certificate_orders
          WHERE name = '{DOMAIN}' AND renew_at BETWEEN now() + interval '364 days' AND now() + interval '367 days'"
    );
    eventually(BACKGROUND, "the window was asked for", async || stage.world.sql_number(&renews).await == 1).await;
    assert_eq!(proxy.asked().windows, 1, "once: Retry-After is kept");
    let before = stage.certificate(DOMAIN).await;

    proxy.set(|mood| mood.renew_in(2020));
    stage.world.sql("UPDATE certificate_orders SET ask_window_at = now()").await;
    stage.wait_for_another(DOMAIN, &before).await;
    assert_eq!(proxy.asked().replacing, 1, "it says what it replaces");
}

#[tokio::test]
async fn where_the_authority_refuses_what_an_order_replaces_it_is_ordered_without() {
    for refusal in [(409, "alreadyReplaced"), (403, "unauthorized"), (404, "malformed")] {
        let (stage, proxy) = Stage::behind_proxy(|world| world).await;
        proxy.set(|mood| {
            mood.renew_in(2099);
            mood.no_replacing = Some(refusal);
        });
        stage.attach(DOMAIN).await;
        stage.expect_live(DOMAIN).await;
        let before = stage.certificate(DOMAIN).await;
        stage.let_renew(DOMAIN).await;
        stage.wait_for_another(DOMAIN, &before).await;
        let asked = proxy.asked();
        assert_eq!((asked.replacing, asked.orders), (1, 3), "{refusal:?}");
    }
}

#[tokio::test]
async fn another_account_does_not_say_what_it_replaces() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| mood.renew_in(2099));
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let before = stage.certificate(DOMAIN).await;
    stage.world.sql("UPDATE acme_accounts SET retired_at = now()").await;
    stage.let_renew(DOMAIN).await;
    stage.wait_for_another(DOMAIN, &before).await;
    assert_eq!((proxy.asked().replacing, proxy.asked().orders), (0, 2));
}

#[tokio::test]
async fn while_renewing_fails_the_last_good_certificate_is_served() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let before = stage.certificate(DOMAIN).await;
    proxy.set(|mood| mood.is_away = true);
    stage.let_renew(DOMAIN).await;
    stage.wait_until(DOMAIN, "renewing: The certificate authority").await;
    assert!(stage.is_trusted(DOMAIN).await);
    proxy.set(|mood| mood.is_away = false);
    stage
        .world
        .sql("UPDATE certificate_orders SET next_attempt_at = now(); UPDATE acme_accounts SET held_until = NULL")
        .await;
    stage.wait_for_another(DOMAIN, &before).await;
}

#[tokio::test]
async fn an_owner_is_told_once_of_a_renewal_that_fails_for_long() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let letters = "SELECT count(*) FROM letters WHERE kind = 'domain_trouble' AND recipient = 'ada@localhost'";
    let failures = format!("SELECT failures::bigint FROM certificate_orders WHERE name = '{DOMAIN}'");
    proxy.set(|mood| mood.is_away = true);
    stage.let_renew(DOMAIN).await;
    stage.wait_until(DOMAIN, "renewing: The certificate authority").await;
    assert_eq!(stage.world.sql_number(letters).await, 0, "the authority may be back in a moment");
    stage.world.sql("UPDATE certificate_orders SET since = since - interval '25 hours'").await;
    for _ in 0..2 {
        let before = stage.world.sql_number(&failures).await;
        let again = "UPDATE certificate_orders SET next_attempt_at = now(); UPDATE acme_accounts SET held_until = NULL";
        stage.world.sql(again).await;
        let has_failed = async || stage.world.sql_number(&failures).await > before;
        eventually(BACKGROUND, "it has failed again", has_failed).await;
        eventually(BACKGROUND, "one letter", async || stage.world.sql_number(letters).await == 1).await;
    }
    let content = stage.world.sql_text("SELECT content::text FROM letters WHERE kind = 'domain_trouble'").await;
    assert!(content.contains(DOMAIN) && content.contains("The certificate authority cannot be reached"), "{content}");
}

#[tokio::test]
async fn a_window_after_the_certificate_s_end_is_not_waited_for() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| mood.renew_in(2099));
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let in_time = "SELECT count(*) FROM certificate_orders o JOIN certificates c ON c.id = o.certificate_id
                    WHERE o.window_starts_at > '2098-12-31' AND o.renew_at <= o.due_by AND o.due_by < c.not_after";
    eventually(BACKGROUND, "it is renewed in time", async || stage.world.sql_number(in_time).await == 1).await;
}

#[tokio::test]
async fn a_renewal_that_cannot_be_looked_at_is_looked_at_again_within_a_minute() {
    let (stage, _proxy) = Stage::behind_proxy(|world| world).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let before = stage.certificate(DOMAIN).await;
    stage.names.servfail(DOMAIN).await;
    let long_ago = "UPDATE certificate_orders SET watched_at = now() - interval '60 days', renew_at = now()";
    stage.world.sql(long_ago).await;
    let waits = "SELECT count(*) FROM certificate_orders
                  WHERE message IS NOT NULL AND leased_until IS NULL AND next_attempt_at < now() + interval '1 minute'";
    eventually(BACKGROUND, "it is looked at again soon", async || stage.world.sql_number(waits).await == 1).await;
    stage.names.no_servfail(DOMAIN).await;
    stage.wait_for_another(DOMAIN, &before).await;
}
