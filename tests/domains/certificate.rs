//! `GET /projects/:name/domains/:domain/certificate`: a handshake with the domain, made for whoever asks.

use std::{net::Ipv4Addr, time::Duration};

use domain::Clock;
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::attach;
use crate::{
    BACKGROUND,
    world::{
        Actor, Builder, Site, World,
        answer::{Answer, assert_keys, parse_timestamp},
        authority::Authority,
        eventually,
        name_server::NameServer,
        tls_server::TlsServer,
    },
};

const DAY: Duration = Duration::from_hours(24);
const HOUR: Duration = Duration::from_hours(1);
const KEYS: &str = "domain reachable valid issuer subject valid_from valid_to days_remaining error";
/// A machine of somebody else's.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);

async fn certificate(actor: &Actor, domain: &str) -> Answer {
    actor.get(&format!("/projects/engine/domains/{domain}/certificate")).await
}

/// The sentence that says why nothing is shown at `domain`.
async fn unreachable(actor: &Actor, domain: &str) -> String {
    let status = certificate(actor, domain).await.ok();
    let error = status["error"].as_str().unwrap_or_else(|| panic!("{status}")).to_owned();
    let wanted = json!({
        "domain": domain, "reachable": false, "valid": false, "issuer": null, "subject": null, "valid_from": null,
        "valid_to": null, "days_remaining": null, "error": error,
    });
    assert_eq!(status, wanted);
    assert!(error.ends_with('.') && !error.trim_end_matches('.').contains(". "), "one sentence: {error}");
    error
}

#[tokio::test]
async fn resolvers_that_do_not_answer_say_nothing_about_the_domain() {
    // They take questions, over UDP and TCP, and answer none.
    let silent = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        (std::net::UdpSocket::bind(listener.local_addr().unwrap()).unwrap(), listener)
    };
    let resolvers = [silent(), silent()];
    let addresses: Vec<String> = resolvers.iter().map(|(udp, _)| udp.local_addr().unwrap().to_string()).collect();
    let world = anywhere().set("ACME__RESOLVERS", addresses.join(",")).start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    attach(&ada, "engine", "www.shop.example").await.created();
    let error = unreachable(&ada, "www.shop.example").await;
    assert!(error.contains("could not be looked up"), "{error}");
}

fn assert_days(status: &Value) {
    let now = Clock::system().now().unix_seconds();
    let left = (parse_timestamp(&status["valid_to"]) - now).div_euclid(24 * 60 * 60);
    let days = status["days_remaining"].as_i64().unwrap();
    // Between the handshake and this line a day may have become full.
    assert!((left..=left + 1).contains(&days), "{days} {left}: {status}");
}

/// A world in which looks are allowed on this machine, for which stand other machines.
pub(super) fn anywhere() -> Builder {
    World::builder().set("LIMITS__PROBE_ALLOW_PRIVATE", true)
}

/// `engine` of ada's, with these domains.
async fn engine(world: &World, domains: &[&str]) -> Actor {
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    for domain in domains {
        attach(&ada, "engine", domain).await.created();
    }
    ada
}

#[tokio::test]
async fn what_visitors_are_shown_is_told_in_every_field() {
    let domain = "www.shop.localhost";
    let world = anywhere().set("ACME__LOCAL_DIR", World::ca_folder().await.display()).start().await;
    let ada = engine(&world, &[domain]).await;
    let error = unreachable(&ada, domain).await;
    assert!(error.contains("shows no certificate"), "{error}");

    world.certify(&[domain]).await;
    let url = world.domain_url(domain);
    eventually(BACKGROUND, "the edge shows it", async || world.edge().get(&url).attempt().await.is_ok()).await;
    let status = certificate(&ada, domain).await.ok();
    assert_keys(&status, KEYS);
    assert_eq!(status["domain"], domain);
    assert_eq!((&status["valid"], &status["error"]), (&json!(true), &Value::Null), "{status}");
    assert!(status["issuer"].as_str().unwrap().contains("svc local CA"), "{status}");
    assert!(!status["subject"].as_str().unwrap().is_empty(), "{status}");
    let stored = |column: &str| {
        format!("SELECT floor(extract(epoch FROM {column}))::bigint FROM certificates WHERE '{domain}' = ANY (names)")
    };
    assert_eq!(parse_timestamp(&status["valid_from"]), world.sql_number(&stored("not_before")).await);
    assert_eq!(parse_timestamp(&status["valid_to"]), world.sql_number(&stored("not_after")).await);
    assert_days(&status);

    // Only of the project's own domains, in whatever way they are written.
    assert_eq!(certificate(&ada, "WWW.Shop.localhost.").await.ok()["domain"], domain);
    ada.publish("other", &Site::page("home")).await;
    attach(&ada, "other", "other.shop.localhost").await.created();
    for not in ["other.shop.localhost", "shop.localhost", "localhost", "127.0.0.1", "no%20name"] {
        certificate(&ada, not).await.assert_error(404, "not_found");
    }
    certificate(&world.user("bob").await, domain).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn a_certificate_that_browsers_refuse_is_shown_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let root = folder.path().join("root.pem");
    let (authority, stranger) = (Authority::new(&root), Authority::new(&folder.path().join("strange.pem")));
    let world = anywhere().set("ACME__RESOLVERS", names.address()).set("ACME__CA_FILE", root.display()).start().await;
    let now = Clock::system().now();
    let days = |days: u32| now + DAY * days + HOUR;
    let mut own = CertificateParams::new(["own.example.com".to_owned()]).unwrap();
    own.not_after = days(30).as_datetime();
    let own_key = KeyPair::generate().unwrap();
    let own_leaf = own.self_signed(&own_key).unwrap().der().clone();
    let own_key = PrivatePkcs8KeyDer::from(own_key.serialize_der()).into();
    let cases = [
        ("good", authority.issue_for(&["good.example.com"], now - DAY, days(30)), true, "", 30),
        ("child", authority.issue_for(&["*.example.com"], now - DAY, days(30)), true, "", 30),
        ("over", authority.issue_for(&["over.example.com"], now - DAY * 9, now - DAY - HOUR), false, "ended on", -2),
        ("early", authority.issue_for(&["early.example.com"], now + DAY, days(9)), false, "is valid from", 9),
        ("other", authority.issue_for(&["x.example", "y.example"], now - DAY, days(9)), false, "for x.example", 9),
        ("stranger", stranger.issue_for(&["stranger.example.com"], now - DAY, days(9)), false, "no authority", 9),
        ("own", (own_leaf, own_key), false, "signed by itself", 30),
    ];
    let domains: Vec<String> = cases.iter().map(|(name, ..)| format!("{name}.example.com")).collect();
    let ada = engine(&world, &domains.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (number, (name, (leaf, key), valid, said, days)) in (10..).zip(cases) {
        let address = Ipv4Addr::new(127, 0, 1, number);
        let domain = format!("{name}.example.com");
        let server = TlsServer::start(address, world.public_port(), vec![leaf], key).await;
        names.a(&domain, &[&address.to_string()]).await;
        let status = certificate(&ada, &domain).await.ok();
        assert_keys(&status, KEYS);
        assert_eq!((&status["reachable"], &status["valid"]), (&json!(true), &json!(valid)), "{status}");
        let error = status["error"].as_str().unwrap_or_default();
        assert!(error.contains(said) && error.is_empty() == valid, "{name}: {error}");
        assert_days(&status);
        assert_eq!(status["days_remaining"], days, "{status}");
        if name != "own" {
            assert_eq!(status["issuer"], "Somebody's CA");
            let subject = match name {
                "child" => "*.example.com",
                "other" => "x.example",
                _ => &domain,
            };
            assert_eq!(status["subject"], subject, "an empty subject has a name in its place");
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_domain_that_does_not_answer_is_unreachable_and_no_error() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = anywhere().set("ACME__RESOLVERS", names.address()).start().await;
    let domains = ["silent.example.com", "closed.example.com", "nowhere.example.com", "broken.example.com"];
    let ada = engine(&world, &domains).await;
    names.a("silent.example.com", &[&ELSEWHERE.to_string()]).await;
    names.a("closed.example.com", &["127.0.0.8"]).await;
    names.servfail("broken.example.com").await;
    let _silent = TlsServer::silent(ELSEWHERE, world.public_port()).await;
    for (domain, said) in domains.iter().zip(["within 5 seconds", "Nothing answers", "no address", "looked up"]) {
        let error = unreachable(&ada, domain).await;
        assert!(error.contains(said), "{domain}: {error}");
    }
}

#[tokio::test]
async fn no_look_leads_into_the_operators_network() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = World::builder().set("ACME__RESOLVERS", names.address()).start().await;
    let ada = engine(&world, &["inside.example.com", "www.shop.localhost"]).await;
    let inside = TlsServer::silent(ELSEWHERE, world.public_port()).await;
    let (metadata, translated) = ("169.254.169.254", "64:ff9b::7f00:7");
    for (ipv4, ipv6) in [
        (vec![ELSEWHERE.to_string()], vec![]),
        (vec![], vec![translated]),
        (vec![metadata.to_owned()], vec!["::1", "fd00::1"]),
    ] {
        names.a("inside.example.com", &ipv4.iter().map(String::as_str).collect::<Vec<_>>()).await;
        names.aaaa("inside.example.com", &ipv6).await;
        let error = unreachable(&ada, "inside.example.com").await;
        assert!(error.contains("not an address of the public internet"), "{ipv4:?} {ipv6:?}: {error}");
    }
    unreachable(&ada, "www.shop.localhost").await;

    // Rebinding: what was judged is what is connected to, whatever the next answer is.
    names.a("inside.example.com", &[]).await;
    let rebind = async {
        loop {
            // Global, and nobody's: of a block that was never given to anybody.
            names.aaaa("inside.example.com", &["2d00::1"]).await;
            names.a("inside.example.com", &[&ELSEWHERE.to_string()]).await;
            names.aaaa("inside.example.com", &[]).await;
            names.a("inside.example.com", &[]).await;
        }
    };
    let looks = async {
        for _ in 0..8 {
            unreachable(&ada, "inside.example.com").await;
        }
    };
    tokio::select! {
        () = rebind => {}
        () = looks => {}
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn an_account_looks_at_its_domains_so_often_in_a_minute() {
    // One of 60 was for attaching it.
    const LOOKS: usize = 59;
    let world = World::builder().start().await;
    let ada = engine(&world, &["www.shop.localhost"]).await;
    for _ in 0..LOOKS {
        unreachable(&ada, "www.shop.localhost").await;
    }
    let refused = certificate(&ada, "www.shop.localhost").await;
    assert!(refused.header("retry-after").parse::<u32>().unwrap() <= 60);
    refused.assert_error(429, "rate_limit_exceeded");
    // Nor in other ways.
    let refreshed = ada.post("/projects/engine/domains/www.shop.localhost/certificate/refresh").await;
    refreshed.assert_error(429, "rate_limit_exceeded");
    attach(&ada, "engine", "www.shop.localhost").await.assert_error(429, "rate_limit_exceeded");
    // Others have not looked yet.
    let bob = world.user("bob").await;
    bob.publish("engine-of-bob", &Site::page("home")).await;
    attach(&bob, "engine-of-bob", "www.bob.localhost").await.created();
    bob.get("/projects/engine-of-bob/domains/www.bob.localhost/certificate").await.ok();
}
