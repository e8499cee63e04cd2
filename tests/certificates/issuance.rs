//! From attaching to the first handshake, by each challenge.

use std::{
    collections::HashMap,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{DOMAIN, Stage};
use crate::{
    BACKGROUND,
    cli::Shell,
    world::{
        Actor,
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
    stage.expect_nothing_left(challenge).await;
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
    add(&bind, folder, zone, records);
    bind
}

/// Adds records to a zone.
fn add(bind: &Bind, folder: &Path, zone: &str, records: &[&str]) {
    let script = folder.join("records");
    let updates: Vec<String> = records.iter().map(|record| format!("update add {record}")).collect();
    let updates = updates.join("\n");
    std::fs::write(&script, format!("server 127.0.0.1 {}\nzone {zone}\n{updates}\nsend\n", bind.port)).unwrap();
    let key = format!("hmac-sha256:{KEY_NAME}:{KEY_SECRET}");
    assert!(Command::new("nsupdate").args(["-y", &key]).arg(&script).status().unwrap().success());
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
    // The order is older than the authority, and may have failed before that listened.
    eventually(BACKGROUND, "the wildcard is live", async || {
        let again = "UPDATE certificate_orders SET next_attempt_at = now() WHERE failures > 0 AND leased_until IS NULL";
        stage.world.sql(again).await;
        stage.state("*.shares.example").await.starts_with("live")
    })
    .await;
    assert!(stage.is_trusted("three-words-here.shares.example").await);
    assert!(stage.is_trusted(zone).await, "the name above it is covered, too");
    assert!(bind.texts("_acme-challenge.shares.example").is_empty(), "the records were removed");
}

/// The delegation of a hostname, by the diagnosis for somebody's project: its value, and whether it stands.
async fn delegation(actor: &Actor, project: &str, hostname: &str) -> (String, bool) {
    let diagnosis = actor.get(&format!("/projects/{project}/domains/{hostname}/diagnosis")).await.ok();
    let Value::Object(delegation) = &diagnosis["delegation"] else { panic!("nobody may delegate: {diagnosis:#}") };
    let record = &delegation["record"];
    assert_eq!((&record["type"], &record["name"]), (&json!("CNAME"), &json!(format!("_acme-challenge.{hostname}"))));
    (record["value"].as_str().unwrap().to_owned(), delegation["stands"].as_bool().unwrap())
}

#[tokio::test]
async fn the_authority_is_told_of_a_record_once_the_zone_s_other_servers_have_it() {
    let folder = tempfile::TempDir::with_prefix("svc-bind-").unwrap();
    let (zone, record) = ("shares.example", "_acme-challenge.shares.example");
    // Records are written here. Everybody asks another server, which copies them some time later.
    let bind = bind(folder.path(), zone, &[]).await;
    let (stage, proxy) =
        Stage::behind_proxy(|world| world.set("SITE__SHARE_DOMAIN", zone).set("ACME__DNS", bind.setting())).await;
    let mut seen: HashMap<String, (Instant, bool)> = HashMap::new();
    eventually(BACKGROUND * 2, "it is live", async || {
        for text in bind.texts(record) {
            let (since, is_copied) = seen.entry(text.clone()).or_insert_with(|| (Instant::now(), false));
            if !*is_copied && since.elapsed() > Duration::from_secs(1) {
                *is_copied = true;
                stage.names.txt(record, &text).await;
            }
        }
        stage.state("*.shares.example").await.starts_with("live")
    })
    .await;
    assert_eq!(proxy.asked().orders, 1, "no look of the authority's failed");
}

#[tokio::test]
async fn a_certificate_stands_before_the_traffic_is_moved_where_its_owner_has_delegated() {
    let folder = tempfile::TempDir::with_prefix("svc-bind-").unwrap();
    let host = "www.old.example";
    let bind = bind(folder.path(), "example", &["www.old.example. 1 A 203.0.113.9"]).await;
    let setting = json!({ "zone": "acme.example", "rfc2136": bind.rfc2136() });
    let stage = Stage::start_with_dns(&bind.address(), |world| world.set("ACME__DNS", setting)).await;
    let (to, stands) = delegation(&stage.ada, "engine", host).await;
    assert!(to.ends_with(".acme.example") && !stands, "{to}");
    add(&bind, folder.path(), "example", &[&format!("_acme-challenge.{host}. 1 CNAME {to}.")]);
    assert_eq!(delegation(&stage.ada, "engine", host).await, (to.clone(), true));
    let shell = Shell::new(&stage.world, stage.ada.token.clone());
    let told = shell.run(&["domains", "doctor", host, "--project", "engine"]).await;
    assert_eq!(told.code, 1, "it does not lead here yet");
    let told = told.out;
    assert!(told.contains(&format!("_acme-challenge.{host}.  CNAME  {to}. stands")), "{told}");

    stage.attach(host).await;
    stage.expect_live(host).await;
    assert!(bind.texts(&to).is_empty(), "the records were removed");
    // The traffic is still to be moved, which is not held back.
    let state = stage.state(host).await;
    assert!(state.contains("203.0.113.9") && state.contains("CNAME"), "{state}");
    let entry = stage.ada.project("engine").await["domains"][0].clone();
    assert_eq!((&entry["tls_ready"], &entry["status"]["has_obstacle"]), (&json!(true), &json!(true)), "{entry}");
    let refreshed = shell.run(&["domains", "refresh", host, "--project", "engine"]).await;
    assert!(!refreshed.err.contains("is live") && refreshed.err.contains("203.0.113.9"), "{}", refreshed.err);

    // Whoever has the name next has not proved it by what its owner left in DNS, nor gets the certificate.
    stage.ada.detach("engine", host).await;
    // It is kept for its owner; here the time is over.
    stage.world.sql("DELETE FROM retired_names").await;
    let eve = stage.world.user("eve").await;
    eve.create_project("rival").await;
    assert_ne!(delegation(&eve, "rival", host).await.0, to);
    eve.attach("rival", host).await;
    stage.wait_until(host, "waiting_for_dns: www.old.example leads to 203.0.113.9").await;
    let issued = format!("SELECT count(*) FROM certificates WHERE '{host}' = ANY (names)");
    assert_eq!(stage.world.sql_number(&issued).await, 1);
    let adopted = "SELECT count(*) FROM certificate_orders
         WHERE domain IS NOT NULL AND (certificate_id IS NOT NULL OR order_url IS NOT NULL)";
    assert_eq!(stage.world.sql_number(adopted).await, 0);
}

#[tokio::test]
async fn a_certificate_that_is_there_already_is_no_proof_that_the_name_leads_here() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    assert_eq!(stage.state(DOMAIN).await, "live: ");
    let shell = Shell::new(&stage.world, stage.ada.token.clone());
    let refresh = ["domains", "refresh", DOMAIN, "--project", "engine"];
    let live = format!("https://{DOMAIN}:{} is live.", stage.world.public_port());
    assert!(shell.run(&refresh).await.err.contains(&live));

    // The owner moves it away.
    stage.names.a(DOMAIN, &["203.0.113.9"]).await;
    let moved = shell.run(&refresh).await;
    assert!(!moved.err.contains("is live") && moved.err.contains("203.0.113.9"), "{}", moved.err);
    assert!(moved.err.contains("Create this") && moved.err.contains("CNAME"), "{}", moved.err);
    assert!(stage.state(DOMAIN).await.starts_with("live: www.shop.example leads to 203.0.113.9, not here"));
    let listed = shell.run(&["domains", "--project", "engine"]).await;
    assert!(listed.err.contains("203.0.113.9"), "{}", listed.err);
    // Attached anew, it is not live for a certificate alone.
    stage.ada.detach("engine", DOMAIN).await;
    stage.attach(DOMAIN).await;
    stage.wait_until(DOMAIN, "waiting_for_dns: www.shop.example leads to 203.0.113.9").await;
    let added = shell.run(&["domains", "add", DOMAIN, "--project", "engine"]).await;
    assert!(!added.err.contains("is live") && added.err.contains("Create this"), "{}", added.err);

    stage.names.a(DOMAIN, &["127.0.0.1"]).await;
    stage.expect_live(DOMAIN).await;
    assert_eq!(stage.state(DOMAIN).await, "live: ");
    assert_eq!(proxy.asked().orders, 1, "the certificate that was there serves");
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
