//! What an account may order at an authority with Let's Encrypt's limits, and what counts for it.

use db::certificates::orders;
use domain::Clock;
use serde_json::json;

use super::{DOMAIN, Stage};
use crate::{
    BACKGROUND,
    stubs::authority::Authority,
    world::{Actor, Site, World, eventually},
};

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

/// Uses up the buckets whose names are like this.
async fn use_up(stage: &Stage, buckets: &str) {
    let sql = format!("UPDATE acme_budgets SET full_at = now() + interval '3 hours' WHERE bucket LIKE '{buckets}'");
    stage.world.sql(&sql).await;
}

/// A site of somebody else's, `shop`.
async fn somebody_else(stage: &Stage) -> Actor {
    let bob = stage.world.user("bob").await;
    bob.publish("shop", &Site::page("bob's")).await;
    bob
}

#[tokio::test]
async fn one_who_has_used_up_their_orders_waits_and_nobody_else_does() {
    let (stage, _proxy) = limited().await;
    stage.attach("first.shop.example").await;
    stage.expect_live("first.shop.example").await;
    let buckets = "SELECT count(*) FROM acme_budgets WHERE bucket LIKE 'orders:usr%'";
    assert_eq!(stage.world.sql_number(buckets).await, 1, "it is counted for the person");
    use_up(&stage, "orders:%").await;
    // In whichever account.
    stage.ada.create_org("acme").await;
    stage.ada.post("/projects").json(&json!({ "name": "crane", "org": "acme" })).await.created();
    for (project, domain) in [("engine", DOMAIN), ("crane", "www.crane.example")] {
        stage.ada.attach(project, domain).await;
        stage
            .wait_until(domain, "ordering: Your domains, with those of your organizations, have had as many orders")
            .await;
        assert!(stage.state(domain).await.contains("waits until 20"), "{}", stage.state(domain).await);
    }
    somebody_else(&stage).await.attach("shop", "www.bob.example").await;
    stage.expect_live("www.bob.example").await;
    // What is live is renewed all the same.
    let before = stage.certificate("first.shop.example").await;
    stage.let_renew("first.shop.example").await;
    stage.wait_for_another("first.shop.example", &before).await;
}

#[tokio::test]
async fn names_without_a_certificate_leave_orders_for_renewals() {
    let (stage, _proxy) = limited().await;
    stage.attach("first.shop.example").await;
    stage.expect_live("first.shop.example").await;
    use_up(&stage, "new-orders").await;
    stage.attach(DOMAIN).await;
    stage.wait_until(DOMAIN, "ordering: The certificate authority takes no more orders right now").await;
    let before = stage.certificate("first.shop.example").await;
    stage.let_renew("first.shop.example").await;
    stage.wait_for_another("first.shop.example", &before).await;
}

#[tokio::test]
async fn orders_that_failed_count_against_their_registered_domain() {
    let (stage, _proxy) = limited().await;
    stage.spoil_answers().await;
    stage.attach(DOMAIN).await;
    stage.wait_for_failures(DOMAIN, 1).await;
    stage.world.sql("DROP TRIGGER spoil ON acme_challenges").await;
    use_up(&stage, "failed-orders:usr%:shop.example").await;
    stage.attach("blog.shop.example").await;
    let waits = "ordering: The certificate authority could not verify many of your names under shop.example";
    stage.wait_until("blog.shop.example", waits).await;
    stage.attach("www.other.example").await;
    stage.expect_live("www.other.example").await;
}

#[tokio::test]
async fn those_who_pay_take_turns() {
    let world = World::start().await;
    let now = Clock::system().now();
    let settings = config::Postgres { max_connections: 1, ..config::Postgres::default() };
    let pool = db::connect(&settings, world.database.as_str()).unwrap();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    ada.publish("engine", &Site::page("home")).await;
    ada.create_org("acme").await;
    ada.post("/projects").json(&json!({ "name": "crane", "org": "acme" })).await.created();
    bob.publish("shop", &Site::page("home")).await;
    // By their names alone bob's would come last.
    let of_ada = [("engine", "a.example"), ("engine", "b.example"), ("crane", "c.example"), ("crane", "d.example")];
    for (project, domain) in of_ada {
        ada.attach(project, domain).await;
        orders::watch(&pool, &domain.parse().unwrap(), now).await.unwrap();
    }
    for domain in ["y.example", "z.example"] {
        bob.attach("shop", domain).await;
        orders::watch(&pool, &domain.parse().unwrap(), now).await.unwrap();
    }
    let claim = async |limit, share| {
        let claimed = orders::claim(&pool, now, now + BACKGROUND, limit, share).await.unwrap();
        let mut names: Vec<String> = claimed.into_iter().map(|claim| claim.name).collect();
        names.sort();
        names
    };
    assert_eq!(claim(2, 2).await, ["a.example", "y.example"]);
    orders::watch_own(&pool, &["*.sites.example".to_owned()], now).await.unwrap();
    assert_eq!(claim(1, 2).await, ["*.sites.example"], "the platform has had no turn yet");
    // Two at a time, of all that one pays for.
    assert_eq!(claim(10, 2).await, ["b.example", "z.example"]);
    assert!(claim(10, 2).await.is_empty());
    assert_eq!(claim(10, 3).await, ["c.example"]);
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
