//! The certificates of custom domains: brought by an operator, presented by edges, listed.

use std::{path::Path, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, HandshakeKind,
    client::{ClientSessionMemoryCache, Resumption},
    version::{TLS12, TLS13},
};
use rustls_pki_types::CertificateDer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use super::DOMAIN;
use crate::{
    BACKGROUND,
    world::{
        Site, World,
        authority::Authority,
        eventually,
        socket::{connect_tls, statuses, tls},
    },
};

/// Runs `certs import`, and gives what it says; an error with its status.
async fn import(world: &World, chain: &Path, key: &Path) -> Result<String, String> {
    let (chain, key) = (chain.display().to_string(), key.display().to_string());
    let output = world.certs(&["import", "--chain", &chain, "--key", &key]).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The leaf that the edge presents for `name`; none when it refuses, or when nobody who trusts `config` would go on.
async fn presented(world: &World, name: &str, config: &Arc<ClientConfig>) -> Option<CertificateDer<'static>> {
    let stream = connect_tls(world.public_port(), name, config.clone()).await.ok()?;
    stream.get_ref().1.peer_certificates()?.first().map(|leaf| leaf.clone().into_owned())
}

#[tokio::test]
async fn an_operators_certificate_is_presented_soon_and_so_is_the_next() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let attached = ada.attach("engine", DOMAIN).await;
    assert_eq!(attached.created()["tls_ready"], false);
    let folder = world.folder();
    let root = folder.join("root.pem");
    let authority = Authority::new(&root);
    let config = Arc::new(tls(&root, &[&TLS12, &TLS13], &[]));
    for _ in 0..10 {
        assert_eq!(presented(&world, DOMAIN, &config).await, None, "there is no certificate yet");
    }

    let first = authority.issue(&folder.join("first"), &[DOMAIN, "shop.localhost"], 5);
    let (chain, key) = (folder.join("first.pem"), folder.join("first.key"));
    let said = import(&world, &chain, &key).await.unwrap();
    for part in [DOMAIN, "shop.localhost", "Somebody's CA", "fullchain.pem", "ends in 5 days"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    eventually(Duration::from_secs(10), "it is presented, although it was asked for before", async || {
        presented(&world, DOMAIN, &config).await.as_ref() == Some(&first)
    })
    .await;
    assert_eq!(presented(&world, "shop.localhost", &config).await.as_ref(), Some(&first));
    assert_eq!(presented(&world, "x.shop.localhost", &config).await, None);
    assert_eq!(ada.attach("engine", DOMAIN).await.created()["tls_ready"], true);
    assert!(import(&world, &chain, &key).await.unwrap().contains("nothing has changed"));
    assert_eq!(world.sql_number("SELECT count(*) FROM certificates").await, 2);

    // The next one takes its place where it is better, and the key is nowhere in the clear.
    let next = authority.issue(&folder.join("next"), &[DOMAIN], 60);
    import(&world, &folder.join("next.pem"), &folder.join("next.key")).await.unwrap();
    eventually(BACKGROUND * 2, "edges that know the old one learn of the next", async || {
        presented(&world, DOMAIN, &config).await.as_ref() == Some(&next)
    })
    .await;
    assert_eq!(presented(&world, "shop.localhost", &config).await.as_ref(), Some(&first));
    assert_eq!(presented(&world, DOMAIN, &config).await.as_ref(), Some(&next), "the older one has more names");
    let in_clear = "SELECT count(*) FROM certificates c WHERE c::text ~ 'PRIVATE' \
                    OR position('PRIVATE'::bytea IN c.sealed_key) > 0";
    assert_eq!(world.sql_number(in_clear).await, 0);

    let listed = world.certs(&["list"]).await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    let lines: Vec<_> = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines[0].starts_with("VALID UNTIL DAYS LEFT ISSUED BY SOURCE NAMES"), "{listed}");
    assert!(lines[1].contains(&format!("5 Somebody's CA import shop.localhost {DOMAIN}")), "{listed}");
    assert!(lines[2].contains(&format!("60 Somebody's CA import {DOMAIN}")), "{listed}");
    assert!(lines[3].contains("svc local CA local *.share.localhost *.svc.localhost localhost"), "{listed}");
    assert_eq!(lines.len(), 4);
}

/// Asks for the site's page over a connection that is kept.
async fn ask(stream: &mut TlsStream<TcpStream>) {
    let request = format!("GET / HTTP/1.1\r\nhost: {DOMAIN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"home") {
        let read = stream.read_buf(&mut answer).await.unwrap();
        assert!(read > 0, "the edge hung up after {}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(statuses(&answer), [200]);
}

#[tokio::test]
async fn a_new_certificate_ends_no_connection_and_no_session() {
    let world = World::builder().edges(2).start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    ada.attach("engine", DOMAIN).await.created();
    let folder = world.folder();
    let root = folder.join("root.pem");
    let authority = Authority::new(&root);
    let ports: Vec<u16> = world.edges.iter().map(|edge| edge.https_port).collect();
    // Of a client that has never been here, at every edge.
    let everywhere = async |leaf: &CertificateDer<'static>| {
        for port in &ports {
            let stream = connect_tls(*port, DOMAIN, Arc::new(tls(&root, &[&TLS13], &[]))).await.ok();
            let shown = stream.as_ref().and_then(|stream| stream.get_ref().1.peer_certificates()?.first());
            if shown != Some(leaf) {
                return false;
            }
        }
        true
    };
    let bring = async |name: &str, days: u64| {
        let leaf = authority.issue(&folder.join(name), &[DOMAIN], days);
        let file = |extension: &str| folder.join(name).with_extension(extension);
        import(&world, &file("pem"), &file("key")).await.unwrap();
        eventually(BACKGROUND, "every edge presents it", async || everywhere(&leaf).await).await;
    };
    bring("first", 5).await;
    let mut client = tls(&root, &[&TLS13], &["http/1.1"]);
    client.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(8)));
    let client = Arc::new(client);
    let mut held = connect_tls(ports[0], DOMAIN, client.clone()).await.unwrap();
    ask(&mut held).await;

    bring("next", 60).await;
    ask(&mut held).await;
    for port in [ports[1], ports[0]] {
        let mut resumed = connect_tls(port, DOMAIN, client.clone()).await.unwrap();
        ask(&mut resumed).await;
        assert_eq!(resumed.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));
    }
}

#[tokio::test]
async fn what_edges_could_not_present_is_refused_with_the_reason() {
    let world = World::start().await;
    let folder = world.folder();
    let authority = Authority::new(&folder.join("root.pem"));
    authority.issue(&folder.join("good"), &[DOMAIN], 60);
    authority.issue(&folder.join("other"), &[DOMAIN], 60);
    authority.issue(&folder.join("over"), &[DOMAIN], 0);
    std::fs::write(folder.join("empty"), "").unwrap();
    std::fs::write(folder.join("huge"), vec![b'x'; 2 * 1024 * 1024]).unwrap();
    let file = |name: &str| folder.join(name);
    for (chain, key, said) in [
        ("good.pem", "other.key", "does not belong to the first certificate"),
        ("good.key", "good.key", "no certificate"),
        ("good.pem", "good.pem", "no private key"),
        ("empty", "good.key", "no certificate"),
        ("huge", "good.key", "too large"),
        ("nothing", "good.key", "cannot read"),
        ("root.pem", "good.key", "does not belong"),
    ] {
        let error = import(&world, &file(chain), &file(key)).await.unwrap_err();
        assert!(error.starts_with("certs: ") && error.contains(said), "{chain}, {key}: {error}");
        assert!(!error.contains("panicked"));
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM certificates").await, 1);
    // Names beyond the local authority's reach.
    let ca = world.ca().parent().unwrap().display().to_string();
    let output = world.certs(&["local-ca", "--dir", &ca, "--name", "www.example.test"]).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("certs import") && error.contains("localhost"), "{error}");
}

#[tokio::test]
async fn names_that_are_made_up_take_no_memory_and_keep_nobody_waiting() {
    let world = World::start().await;
    world.certify(&[DOMAIN]).await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    ada.attach("engine", DOMAIN).await;
    let config = Arc::new(tls(world.ca(), &[&TLS13], &[]));
    let ask = async |from: u32, to: u32| {
        for number in from..to {
            assert_eq!(presented(&world, &format!("{number}.made-up.example"), &config).await, None);
        }
    };
    ask(0, 200).await;
    let before = world.edge().process.memory("VmRSS");
    ask(200, 2_200).await;
    let grown = world.edge().process.memory("VmRSS").saturating_sub(before);
    assert!(grown < 4 * 1024 * 1024, "{grown} bytes for 2000 names");
    assert!(presented(&world, DOMAIN, &config).await.is_some());
}

#[tokio::test]
async fn the_certificate_of_a_domain_that_is_given_up_goes_once_the_domain_is_free() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let (given_up, kept) = ("www.shop.localhost", "www.other.localhost");
    for domain in [given_up, kept] {
        ada.attach("engine", domain).await;
    }
    world.certify(&[given_up]).await;
    world.certify(&[kept]).await;
    world.edge().get(&world.domain_url(given_up)).await.assert_body(200, "home");
    for domain in [given_up, kept] {
        ada.detach("engine", domain).await;
    }
    ada.attach("engine", kept).await;
    // Whoever forgets retired names does so when admin starts.
    let stored = format!("SELECT count(*) FROM certificates WHERE names = ARRAY['{given_up}']");
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '29 days'").await;
    world
        .sql("INSERT INTO retired_names VALUES ('project', 'forgotten', '{nobody}', now() - interval '31 days')")
        .await;
    let is_due = "UPDATE job_leases SET last_run_at = last_run_at - interval '1 day', leased_until = NULL";
    world.sql(is_due).await;
    world.restart_admin().await;
    let forgotten = "SELECT count(*) FROM retired_names WHERE name = 'forgotten'";
    eventually(BACKGROUND, "names are forgotten", async || world.sql_number(forgotten).await == 0).await;
    assert_eq!(world.sql_number(&stored).await, 1);
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '2 days'").await;
    world.sql(is_due).await;
    world.restart_admin().await;
    eventually(BACKGROUND, "it is deleted", async || world.sql_number(&stored).await == 0).await;
    let other = format!("SELECT count(*) FROM certificates WHERE names = ARRAY['{kept}']");
    assert_eq!(world.sql_number(&other).await, 1);
    world.edge().get(&world.domain_url(kept)).await.assert_body(200, "home");
}
