//! From attaching to the first handshake, by each challenge.

use std::{path::Path, process::Command};

use serde_json::json;

use super::{DOMAIN, Stage};
use crate::{
    BACKGROUND,
    world::{
        bind::{Bind, KEY_NAME, KEY_SECRET},
        eventually,
        pebble::Faults,
    },
};

async fn issue_by(challenge: &str) {
    let faults = Faults { bad_nonces: 50, ..Faults::default() };
    let stage = Stage::start(faults, |world| world.set("ACME__CHALLENGES", challenge)).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let source = "SELECT source || ' ' || (account_id IS NOT NULL) FROM certificates WHERE source = 'acme'";
    assert_eq!(stage.world.sql_text(source).await, "acme true");
    assert_eq!(stage.world.sql_number("SELECT count(*) FROM acme_challenges").await, 0, "nothing is left behind");
    let pending = "SELECT count(*) FROM certificate_orders WHERE order_url IS NOT NULL OR sealed_key IS NOT NULL";
    assert_eq!(stage.world.sql_number(pending).await, 0);
}

#[tokio::test]
async fn a_certificate_comes_by_http_01_though_half_the_nonces_are_refused() {
    issue_by("http-01").await;
}

#[tokio::test]
async fn a_certificate_comes_by_tls_alpn_01_though_half_the_nonces_are_refused() {
    issue_by("tls-alpn-01").await;
}

#[tokio::test]
async fn an_account_is_tied_to_one_that_the_authority_knows() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let faults = Faults { external_account: Some(("kid-1".to_owned(), key.to_owned())), ..Faults::default() };
    let stage = Stage::start(faults, |world| world).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
}

#[tokio::test]
async fn nothing_is_ordered_before_dns_leads_here() {
    let stage = Stage::start(Faults::default(), |world| world).await;
    stage.names.a(DOMAIN, &["203.0.113.9"]).await;
    stage.attach(DOMAIN).await;
    eventually(BACKGROUND, "what stands in the way is said", async || {
        stage.state(DOMAIN).await.contains("203.0.113.9")
    })
    .await;
    assert_eq!(stage.world.sql_number("SELECT count(*) FROM acme_accounts").await, 0, "nobody was asked");
    stage.names.a(DOMAIN, &["127.0.0.1"]).await;
    stage.expect_live(DOMAIN).await;
}

/// A BIND that is all of a stage's DNS.
async fn bind(folder: &Path, zone: &str, records: &[&str]) -> Bind {
    let bind = Bind::start(folder, zone).await;
    let script = folder.join("records");
    let updates: Vec<String> = records.iter().map(|record| format!("update add {record}")).collect();
    let updates = updates.join("\n");
    std::fs::write(&script, format!("server 127.0.0.1 {}\nzone {zone}\n{updates}\nsend\n", bind.port)).unwrap();
    let key = format!("hmac-sha256:{KEY_NAME}:{KEY_SECRET}");
    assert!(Command::new("nsupdate").args(["-y", &key]).arg(&script).status().unwrap().success());
    bind
}

#[tokio::test]
async fn the_wildcard_of_shares_comes_by_records_that_are_written_and_removed() {
    let folder = tempfile::TempDir::with_prefix("svc-bind-").unwrap();
    let zone = "shares.example";
    let bind = bind(folder.path(), zone, &[]).await;
    let stage = Stage::start_with_dns(&bind.address(), |world| {
        world.set("SITE__SHARE_DOMAIN", zone).set("ACME__DNS", bind.setting())
    })
    .await;
    stage.wait_until("*.shares.example", "live").await;
    assert!(stage.is_trusted("three-words-here.shares.example").await);
    assert!(stage.is_trusted(zone).await, "the name above it is covered, too");
    assert!(bind.texts("_acme-challenge.shares.example").is_empty(), "the records were removed");
}

#[tokio::test]
async fn a_certificate_stands_before_the_traffic_is_moved_where_its_owner_has_delegated() {
    let folder = tempfile::TempDir::with_prefix("svc-bind-").unwrap();
    let dns = config::acme::Dns { zone: Some("acme.example".to_owned()), ..config::acme::Dns::default() };
    let to = certs::dns01::delegation(&dns, &"www.old.example".parse().unwrap()).unwrap();
    let delegation = format!("_acme-challenge.www.old.example. 1 CNAME {to}.");
    let bind = bind(folder.path(), "example", &["www.old.example. 1 A 203.0.113.9", &delegation]).await;
    let setting = json!({ "zone": "acme.example", "rfc2136": bind.rfc2136() });
    let stage = Stage::start_with_dns(&bind.address(), |world| world.set("ACME__DNS", setting)).await;
    stage.attach("www.old.example").await;
    stage.expect_live("www.old.example").await;
    assert!(bind.texts(&to).is_empty(), "the records were removed");
}

#[tokio::test]
async fn two_admins_order_once() {
    let stage = Stage::start(Faults::default(), |world| world).await;
    let other = stage.world.start_another_admin();
    let domains: Vec<String> = (0..20).map(|number| format!("www{number}.shop.example")).collect();
    for domain in &domains {
        stage.attach(domain).await;
    }
    for domain in &domains {
        stage.expect_live(domain).await;
    }
    assert_eq!(stage.world.sql_number("SELECT count(*) FROM certificates WHERE source = 'acme'").await, 20);
    let live = stage.world.sql_number("SELECT count(*) FROM acme_accounts WHERE retired_at IS NULL").await;
    assert_eq!(live, 1, "they share the account");
    drop(other);
}
