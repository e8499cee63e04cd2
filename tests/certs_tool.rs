//! The operator's tool against an authority: the certificate of the platform's own wildcard, from its first order to
//! the day on which its key has leaked.

use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    BACKGROUND,
    world::{
        World,
        bind::Bind,
        eventually,
        pebble::{Faults, Pebble},
    },
};

const WILDCARD: &str = "*.svc.localhost";

/// The output of the tool, which must have succeeded.
fn said(output: Output) -> String {
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout
}

/// The certificates for the wildcard that came from an authority.
async fn issued(world: &World) -> Vec<Value> {
    let listed: Vec<Value> = serde_json::from_str(&said(world.certs(&["list", "--json"]).await)).unwrap();
    let is_ours = |row: &Value| row["source"] == "acme" && row["names"].as_array().unwrap().contains(&json!(WILDCARD));
    listed.into_iter().filter(is_ours).collect()
}

#[tokio::test]
async fn an_operator_orders_renews_revokes_and_finds_out_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let bind = Bind::start(folder.path(), "svc.localhost").await;
    let pebble = Pebble::prepare(folder.path(), Faults { bad_nonces: 10, ..Faults::default() });
    let settings = pebble.settings().into_iter();
    let world = settings.fold(World::builder(), |world, (key, value)| world.set(key, value));
    let world = world.set("ACME__DNS", json!({ "rfc2136": bind.rfc2136() }));
    let world = world.set("ACME__RESOLVERS", bind.address()).start().await;

    // Without the authority.
    let doctor = world.certs(&["doctor"]).await;
    let lines = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && lines.contains("FAIL  directory of acme"), "{lines}");
    for fine in ["master key", "database", "stored keys", "resolvers", "DNS records", "renewals"] {
        assert!(lines.lines().any(|line| line.starts_with("OK") && line.contains(fine)), "{fine}: {lines}");
    }
    // The template's certificate would do for the wildcard.
    world.sql("DELETE FROM certificate_orders; DELETE FROM certificates").await;
    let mut pebble = pebble.start(world.edge().http_port, world.edge().https_port, &bind.address()).await;

    let progress = said(world.certs(&["issue", WILDCARD, "--wait", "60"]).await);
    assert!(progress.contains("*.svc.localhost: live") && progress.contains("done"), "{progress}");
    let first = issued(&world).await;
    assert_eq!(first.len(), 1, "{first:?}");
    let account = first[0]["account"].as_str().unwrap();
    assert!(account.starts_with("https://127.0.0.1"), "{account}");
    assert!(said(world.certs(&["list"]).await).contains(account));
    eventually(BACKGROUND, "nothing is left in the zone", async || {
        bind.texts("_acme-challenge.svc.localhost").is_empty()
    })
    .await;

    // In fewer days than the local authority's certificate has, and then in more.
    said(world.certs(&["list", "--expiring", "14"]).await);
    let expiring = world.certs(&["list", "--expiring", "5000", "--json"]).await;
    assert_eq!(expiring.status.code(), Some(1));
    assert!(String::from_utf8(expiring.stdout).unwrap().contains(WILDCARD));

    // Whether visitors are shown what is stored.
    let edges = async || {
        let checks = String::from_utf8(world.certs(&["doctor", "--json"]).await.stdout).unwrap();
        let checks: Vec<Value> = serde_json::from_str(&checks).unwrap();
        let check = checks.into_iter().find(|check| check["name"] == "edges").unwrap();
        (check["ok"] == true, check["message"].as_str().unwrap().to_owned())
    };
    let (is_good, seen) = edges().await;
    assert!(is_good && seen.starts_with("127.0.0.1 (of edge.svc.localhost): "), "{seen}");
    let other = std::fs::read_to_string(world.ca()).unwrap();
    world
        .sql(&format!(
            "CREATE TABLE kept AS SELECT id, chain_pem FROM certificates; UPDATE certificates SET chain_pem = '{other}'"
        ))
        .await;
    let (is_good, seen) = edges().await;
    assert!(!is_good && seen.contains("127.0.0.1 shows another certificate of svc-doctor.svc.localhost"), "{seen}");
    world
        .sql(
            "UPDATE certificates SET chain_pem = kept.chain_pem FROM kept WHERE kept.id = certificates.id;
             DROP TABLE kept",
        )
        .await;

    let rotated = said(world.certs(&["rotate-account"]).await);
    assert!(rotated.contains("has a new key") && rotated.contains(account), "{rotated}");
    let healthy = said(world.certs(&["doctor", "--json"]).await);
    let healthy: Vec<Value> = serde_json::from_str(&healthy).unwrap();
    assert!(
        healthy.iter().any(|check| check["name"] == "account of acme" && check["message"] == account),
        "{healthy:?}"
    );

    // With the account's new key.
    let due = said(world.certs(&["renew", WILDCARD, "--json"]).await);
    assert_eq!(serde_json::from_str::<Value>(&due).unwrap(), json!({ "due": 1, "under_way": [], "refused": [] }));
    said(world.certs(&["issue", WILDCARD, "--wait", "60"]).await);
    let second = issued(&world).await;
    assert_eq!(second.len(), 2, "{second:?}");
    assert_eq!(second.iter().filter(|row| row["replaced"] == true).count(), 1, "{second:?}");
    let unknown = world.certs(&["renew", "www.unknown.example"]).await;
    assert!(!unknown.status.success());

    let revoked = said(world.certs(&["revoke", WILDCARD, "--reason", "key-compromise"]).await);
    assert!(revoked.contains("revoked 2 certificates") && revoked.contains("orders a new one"), "{revoked}");
    let other = world.certs(&["revoke", WILDCARD, "--reason", "boredom"]).await;
    assert!(String::from_utf8_lossy(&other.stderr).contains("key-compromise"));
    said(world.certs(&["issue", WILDCARD, "--wait", "60"]).await);
    eventually(BACKGROUND, "there is a third", async || issued(&world).await.len() == 3).await;

    let nobodys = world.certs(&["issue", "www.unknown.example"]).await;
    let nobodys = String::from_utf8(nobodys.stderr).unwrap();
    assert!(nobodys.contains("svc domains add www.unknown.example"), "{nobodys}");

    // A renewal that waits for its next attempt is no error.
    let waits = "UPDATE certificate_orders SET state = 'renewing', message = 'The authority is away.',
                        next_attempt_at = now() + interval '1 hour' WHERE name = '*.svc.localhost'";
    world.sql(waits).await;
    let under_way = said(world.certs(&["renew", WILDCARD]).await);
    for words in ["is being renewed already: The authority is away.", "the next attempt is due at", "certs issue"] {
        assert!(under_way.contains(words), "`{words}` is not said: {under_way}");
    }
    let again: Value = serde_json::from_str(&said(world.certs(&["renew", WILDCARD, "--json"]).await)).unwrap();
    assert_eq!((&again["due"], &again["under_way"][0]["name"]), (&json!(0), &json!(WILDCARD)), "{again}");

    // The authority has forgotten everything: the account is gone.
    pebble.restart().await;
    let doctor = world.certs(&["doctor"]).await;
    let lines = String::from_utf8(doctor.stdout).unwrap();
    assert!(!doctor.status.success() && lines.contains("FAIL  account of acme"), "{lines}");
    let gone = world.certs(&["rotate-account"]).await;
    assert!(!gone.status.success() && String::from_utf8_lossy(&gone.stdout).contains("does not know the account"));
}

#[tokio::test]
async fn without_an_issuer_the_tool_says_so() {
    let world = World::start().await;
    let issue = world.certs(&["issue", "www.shop.example"]).await;
    assert!(String::from_utf8_lossy(&issue.stderr).contains("acme.issuer is `none`"), "{issue:?}");
    let doctor = said(world.certs(&["doctor"]).await);
    assert!(doctor.contains("certificates are imported") && !doctor.contains("FAIL"), "{doctor}");
    let revoke = world.certs(&["revoke", WILDCARD]).await;
    assert!(String::from_utf8_lossy(&revoke.stderr).contains("no account of ours"), "{revoke:?}");
}
