//! Renewal: when the authority says, and by the account that the certificate was issued to.

use super::{DOMAIN, Stage};
use crate::{BACKGROUND, world::eventually};

#[tokio::test]
async fn a_window_that_is_pulled_forward_replaces_the_certificate_at_once() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| mood.renew_in(2099));
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let renews = format!("SELECT count(*) FROM certificate_orders WHERE name = '{DOMAIN}' AND renew_at > '2098-12-31'");
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
    for refusal in [(409, "alreadyReplaced"), (403, "unauthorized")] {
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
