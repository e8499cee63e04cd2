//! What an account may order at an authority with Let's Encrypt's limits, and what counts for it.

use super::{DOMAIN, Stage};
use crate::{BACKGROUND, stubs::authority::Authority, world::eventually};

/// A stage whose authority has the limits of a public one.
async fn limited() -> (Stage, Authority) {
    Stage::behind_proxy(|world| world.set("ACME__LIMITS", "public")).await
}

/// The certificates of the week that are counted for a name: four are allowed, and one is given back in 42 hours.
async fn counted(stage: &Stage, name: &str) -> i64 {
    let sql = format!(
        "SELECT coalesce((SELECT round(extract(epoch FROM full_at - now()) / 151200) FROM acme_budgets
                           WHERE bucket = 'names:{name}'), 0)::bigint"
    );
    stage.world.sql_number(&sql).await
}

#[tokio::test]
async fn orders_that_were_never_placed_cost_nothing() {
    let (stage, proxy) = limited().await;
    stage.attach("first.shop.example").await;
    stage.expect_live("first.shop.example").await;
    proxy.set(|mood| mood.is_away = true);
    stage.attach(DOMAIN).await;
    for count in 1..=5 {
        stage.wait_for_failures(DOMAIN, count).await;
        if count == 5 {
            proxy.set(|mood| mood.is_away = false);
        }
        stage.try_now(DOMAIN).await;
    }
    stage.expect_live(DOMAIN).await;
    assert_eq!(counted(&stage, DOMAIN).await, 1);
}

#[tokio::test]
async fn orders_that_failed_count_for_no_certificate() {
    let (stage, _proxy) = limited().await;
    stage.spoil_answers().await;
    stage.attach(DOMAIN).await;
    for count in 1..=5 {
        stage.wait_for_failures(DOMAIN, count).await;
        stage.world.sql("DELETE FROM acme_budgets WHERE bucket LIKE 'failures:%'").await;
        if count == 5 {
            stage.world.sql("DROP TRIGGER spoil ON acme_challenges").await;
        }
        stage.try_now(DOMAIN).await;
    }
    stage.expect_live(DOMAIN).await;
    assert_eq!(counted(&stage, DOMAIN).await, 1);
}

#[tokio::test]
async fn a_renewal_is_counted_where_the_authority_has_no_renewal_information() {
    let (stage, proxy) = limited().await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let before = stage.certificate(DOMAIN).await;
    stage.let_renew(DOMAIN).await;
    stage.wait_for_another(DOMAIN, &before).await;
    assert_eq!((counted(&stage, DOMAIN).await, proxy.asked().replacing), (2, 0));
}

#[tokio::test]
async fn a_renewal_is_counted_before_the_window_that_the_authority_suggests_and_not_in_it() {
    let (stage, proxy) = limited().await;
    proxy.set(|mood| mood.renew_in_days(365));
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let asked = "SELECT count(*) FROM certificate_orders WHERE window_starts_at > now()";
    eventually(BACKGROUND, "the window was asked for", async || stage.world.sql_number(asked).await == 1).await;
    let before = stage.certificate(DOMAIN).await;
    stage.let_renew(DOMAIN).await;
    stage.wait_for_another(DOMAIN, &before).await;
    assert_eq!((counted(&stage, DOMAIN).await, proxy.asked().replacing), (2, 1));

    let before = stage.certificate(DOMAIN).await;
    proxy.set(|mood| mood.renew_in(2020));
    stage.world.sql("UPDATE certificate_orders SET ask_window_at = now()").await;
    stage.wait_for_another(DOMAIN, &before).await;
    assert_eq!((counted(&stage, DOMAIN).await, proxy.asked().replacing), (2, 2));
}

#[tokio::test]
async fn a_name_that_waits_for_its_turn_is_not_looked_at_meanwhile() {
    let (stage, _proxy) = limited().await;
    stage.attach("first.shop.example").await;
    stage.expect_live("first.shop.example").await;
    stage.world.sql("UPDATE acme_budgets SET full_at = now() + interval '3 hours' WHERE bucket = 'orders'").await;
    stage.attach(DOMAIN).await;
    let waits = "ordering: The certificate authority takes no more orders right now";
    stage.wait_until(DOMAIN, waits).await;
    // A look would find this.
    stage.names.a(DOMAIN, &["203.0.113.9"]).await;
    stage.try_now(DOMAIN).await;
    let again = format!("SELECT count(*) FROM certificate_orders WHERE name = '{DOMAIN}' AND next_attempt_at > now()");
    eventually(BACKGROUND, "it waits again", async || stage.world.sql_number(&again).await == 1).await;
    assert!(stage.state(DOMAIN).await.starts_with(waits), "{}", stage.state(DOMAIN).await);
    stage.names.a(DOMAIN, &["127.0.0.1"]).await;
    stage.world.sql("DELETE FROM acme_budgets WHERE bucket = 'orders'").await;
    stage.try_now(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
}
