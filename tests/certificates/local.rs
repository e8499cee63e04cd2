//! `acme.issuer = "local"`: the installation's own authority signs names under `localhost`.

use std::sync::Arc;

use rustls::version::TLS13;

use crate::{
    BACKGROUND,
    world::{
        Actor, Site, World, eventually,
        socket::{connect_tls, tls},
    },
};

async fn local() -> (World, Actor) {
    // The template's authority, whose root every client of a world trusts.
    let folder = World::start().await.ca().parent().unwrap().display().to_string();
    let world = World::builder().set("ACME__ISSUER", "local").set("ACME__LOCAL_DIR", folder).start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    (world, ada)
}

async fn state(world: &World, domain: &str) -> String {
    let sql = format!("SELECT state || ': ' || coalesce(message, '') FROM certificate_orders WHERE name = '{domain}'");
    world.sql_text(&sql).await
}

#[tokio::test]
async fn a_name_under_localhost_has_its_certificate_without_another_command() {
    let (world, ada) = local().await;
    let domain = "www.shop.localhost";
    ada.attach("engine", domain).await;
    eventually(BACKGROUND, "it is live", async || state(&world, domain).await.starts_with("live")).await;
    world.edge().get(&world.domain_url(domain)).await.assert_body(200, "home");
}

#[tokio::test]
async fn other_names_are_blocked_with_what_the_operator_can_do() {
    let (world, ada) = local().await;
    ada.attach("engine", "www.shop.example").await;
    eventually(BACKGROUND, "it is blocked", async || {
        let state = state(&world, "www.shop.example").await;
        state.starts_with("blocked") && state.contains("certs import")
    })
    .await;
}

#[tokio::test]
async fn a_detached_domains_certificate_is_presented_no_more() {
    let (world, ada) = local().await;
    let domain = "www.shop.localhost";
    ada.attach("engine", domain).await;
    eventually(BACKGROUND, "it is live", async || state(&world, domain).await.starts_with("live")).await;
    let config = Arc::new(tls(world.ca(), &[&TLS13], &[]));
    let greets = async |name: &str| connect_tls(world.public_port(), name, config.clone()).await.is_ok();
    eventually(BACKGROUND, "admin has heard of the edge", async || {
        ada.attach("engine", "other.shop.localhost").await;
        ada.detach("engine", "other.shop.localhost").await.header("x-svc-propagation").starts_with("1/1")
    })
    .await;
    for _ in 0..3 {
        eventually(BACKGROUND, "its certificate is presented", async || greets(domain).await).await;
        // The answer comes when every edge has applied the change.
        ada.detach("engine", domain).await.assert_status(200);
        assert!(!greets(domain).await, "the certificate is presented although the domain was detached");
        assert!(greets("engine.svc.localhost").await, "others are presented as before");
        ada.attach("engine", domain).await;
    }
    ada.delete("/projects/engine").await.assert_status(200);
    assert!(!greets(domain).await, "the certificate is presented although the project was deleted");
}
