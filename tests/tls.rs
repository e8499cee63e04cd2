//! TLS at the edge, for clients of all kinds.

use std::{sync::Arc, time::Duration};

use rustls::{
    ClientConfig, HandshakeKind, SupportedCipherSuite,
    client::{ClientSessionMemoryCache, Resumption},
    crypto::aws_lc_rs::{self, kx_group},
    version::{TLS12, TLS13},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::world::{
    Site, World,
    process::program,
    socket::{connect_tls, converse, roots, statuses, tls},
};

const HOST: &str = "engine.svc.localhost";

async fn world_with_site() -> World {
    let world = World::start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    world
}

fn get(host: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").into_bytes()
}

async fn assert_alive(world: &World) {
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken() {
    let world = world_with_site().await;
    for version in [&TLS12, &TLS13] {
        for (alpn, chosen) in [
            (vec!["h2", "http/1.1"], Some("h2")),
            (vec!["http/1.0", "http/1.1"], Some("http/1.1")),
            (vec!["http/1.1"], Some("http/1.1")),
            (vec!["http/1.0"], Some("http/1.0")),
            (vec![], None),
        ] {
            let config = Arc::new(tls(world.ca(), &[version], &alpn));
            let mut stream = connect_tls(world.public_port(), HOST, config).await.unwrap();
            let (_, connection) = stream.get_ref();
            assert_eq!(connection.protocol_version(), Some(version.version));
            assert_eq!(connection.alpn_protocol(), chosen.map(str::as_bytes));
            if chosen == Some("http/1.0") {
                // As `curl -0` asks. Such a client knows no chunks, and reads until the end.
                let request = format!("GET / HTTP/1.0\r\nHost: {HOST}\r\n\r\n");
                let answer = converse(&mut stream, request.as_bytes()).await;
                let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
                assert_eq!(statuses(&answer), [200], "{text}");
                assert!(text.contains("content-length: 4") && !text.contains("transfer-encoding"), "{text}");
            } else if chosen != Some("h2") {
                assert_eq!(statuses(&converse(&mut stream, &get(HOST)).await), [200]);
            }
        }
    }
}

/// What a client offers, in its order, by what the suites' names hold; and which of them it gets.
const SUITES: [(&[&str], &str); 5] = [
    (&["AES_256", "AES_128", "CHACHA20"], "AES_128"),
    (&["AES_256", "CHACHA20", "AES_128"], "AES_128"),
    // Without instructions for AES, ChaCha20 takes a fraction of the time.
    (&["CHACHA20", "AES_256", "AES_128"], "CHACHA20"),
    (&["CHACHA20"], "CHACHA20"),
    (&["AES_256"], "AES_256"),
];

#[tokio::test]
async fn the_edge_chooses_the_cipher_suite_and_heeds_who_has_no_aes_in_hardware() {
    let world = world_with_site().await;
    let name = |suite: &SupportedCipherSuite| suite.suite().as_str().unwrap_or_default();
    for version in [&TLS12, &TLS13] {
        for (offered, expected) in SUITES {
            let mut provider = aws_lc_rs::default_provider();
            let all = std::mem::take(&mut provider.cipher_suites);
            for part in offered {
                provider.cipher_suites.extend(all.iter().filter(|suite| name(suite).contains(part)));
            }
            let config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(roots(world.ca()))
                .with_no_client_auth();
            let mut stream = connect_tls(world.public_port(), HOST, Arc::new(config)).await.unwrap();
            let chosen = stream.get_ref().1.negotiated_cipher_suite().unwrap();
            assert!(name(&chosen).contains(expected), "{:?}, {offered:?}: {chosen:?}", version.version);
            assert_eq!(statuses(&converse(&mut stream, &get(HOST)).await), [200], "{offered:?}");
        }
    }
}

#[tokio::test]
async fn a_scan_by_testssl_finds_nothing_above_low() {
    let world = world_with_site().await;
    let report = world.folder().join("scan.json");
    let mut scan = tokio::process::Command::new("testssl");
    scan.args(["--quiet", "--color", "0", "--warnings", "off", "--ip", "127.0.0.1", "--nodns", "none"]);
    scan.arg("--add-ca").arg(world.ca()).arg("--jsonfile").arg(&report).arg(world.site_url("engine"));
    let output = scan.output().await.unwrap();
    let findings: Vec<Value> = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let ids: Vec<&str> = findings.iter().filter_map(|finding| finding["id"].as_str()).collect();
    for expected in ["TLS1_3", "cipher_order", "cert_chain_of_trust", "heartbleed", "ticketbleed"] {
        assert!(ids.contains(&expected), "{expected}: {}", String::from_utf8_lossy(&output.stdout));
    }
    // The local authority publishes no revocations: what it signs is for this machine.
    let is_bad = |finding: &&Value| {
        finding["id"] != "cert_revocation"
            && ["MEDIUM", "HIGH", "CRITICAL"].map(Value::from).contains(&finding["severity"])
    };
    assert_eq!(findings.iter().filter(is_bad).collect::<Vec<_>>(), [&Value::Null; 0]);
}

#[tokio::test]
async fn a_client_that_prefers_the_group_that_withstands_quantum_computers_gets_it() {
    let world = world_with_site().await;
    for preferred in [kx_group::X25519MLKEM768, kx_group::X25519] {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.kx_groups.sort_by_key(|group| group.name() != preferred.name());
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots(world.ca()))
            .with_no_client_auth();
        let stream = connect_tls(world.public_port(), HOST, Arc::new(config)).await.unwrap();
        let negotiated = stream.get_ref().1.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(negotiated, preferred.name());
    }
}

#[tokio::test]
async fn the_certificate_covers_every_kind_of_host() {
    let world = world_with_site().await;
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    for host in [
        HOST,
        "api.svc.localhost",
        "app.svc.localhost",
        "0123456789abcdefghij--engine.svc.localhost",
        "amber-quiet-otter.share.localhost",
    ] {
        connect_tls(world.public_port(), host, config.clone()).await.unwrap_or_else(|e| panic!("{host}: {e}"));
    }
}

#[tokio::test]
async fn an_unknown_or_missing_name_gets_no_service() {
    let world = world_with_site().await;
    let config = Arc::new(tls(world.ca(), &[&TLS12, &TLS13], &["http/1.1"]));
    for host in ["example.com", "svc.localhost.example.com", "a.b.c.svc.localhost", "127.0.0.1"] {
        assert!(connect_tls(world.public_port(), host, config.clone()).await.is_err(), "{host} was accepted");
    }
    for number in 0..200 {
        let host = format!("{number}.example.org");
        assert!(connect_tls(world.public_port(), &host, config.clone()).await.is_err());
    }
    assert_alive(&world).await;
}

#[tokio::test]
async fn a_session_is_resumed_at_another_edge() {
    let world = World::builder().edges(2).start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    for version in [&TLS12, &TLS13] {
        let mut config: ClientConfig = tls(world.ca(), &[version], &["http/1.1"]);
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(8)));
        let config = Arc::new(config);
        let mut kinds = Vec::new();
        for edge in [0, 1, 0, 1] {
            let port = world.edges[edge].https_port;
            let mut stream = connect_tls(port, HOST, config.clone()).await.unwrap();
            // Tickets of TLS 1.3 come after the handshake.
            assert_eq!(statuses(&converse(&mut stream, &get(HOST)).await), [200]);
            kinds.push(stream.get_ref().1.handshake_kind().unwrap());
        }
        assert_eq!(kinds[0], HandshakeKind::Full);
        assert_eq!(kinds[1..], [HandshakeKind::Resumed; 3], "{version:?}");
    }
}

#[tokio::test]
async fn a_host_of_the_other_application_is_misdirected() {
    let world = world_with_site().await;
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    for (sni, host) in [(HOST, "api.svc.localhost"), ("api.svc.localhost", HOST), ("app.svc.localhost", HOST)] {
        let mut stream = connect_tls(world.public_port(), sni, config.clone()).await.unwrap();
        let answer = converse(&mut stream, &get(host)).await;
        assert_eq!(statuses(&answer), [421], "{sni} then {host}: {}", String::from_utf8_lossy(&answer));
    }
    // Two sites share a certificate, and with HTTP/2 a connection.
    let mut stream = connect_tls(world.public_port(), "other.svc.localhost", config).await.unwrap();
    assert_eq!(statuses(&converse(&mut stream, &get(HOST)).await), [200]);
}

#[tokio::test]
async fn what_the_edge_refuses_itself_has_the_form_of_the_hosts_answers() {
    const API: &str = "api.svc.localhost";
    const AI: &str = "ai.svc.localhost";
    let world = world_with_site().await;
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    let request = |lines: &str| format!("GET /me HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
    let two_hosts = |host: &str| request(&format!("host: {host}\r\nhost: {host}\r\n"));
    let one_host = |host: &str| request(&format!("host: {host}\r\n"));
    let cookies =
        |host: &str| request(&format!("host: {host}\r\n{}", format!("cookie: a={}\r\n", "b".repeat(4_000)).repeat(17)));
    for (sni, request, status, code) in [
        (API, two_hosts(API), 400, Some("invalid_request")),
        (HOST, one_host(API), 421, Some("invalid_request")),
        (API, cookies(API), 431, Some("invalid_request")),
        (AI, two_hosts(AI), 400, Some("malformed_request")),
        (API, one_host(AI), 421, Some("misdirected_request")),
        (AI, cookies(AI), 431, Some("headers_too_large")),
        (HOST, two_hosts(HOST), 400, None),
        (API, one_host(HOST), 421, None),
        (HOST, cookies(HOST), 431, None),
    ] {
        let mut stream = connect_tls(world.public_port(), sni, config.clone()).await.unwrap();
        let answer = converse(&mut stream, request.as_bytes()).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let what = format!("{sni}, {status}: {text}");
        assert_eq!(statuses(&answer), [status], "{what}");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(head.contains("clear-site-data: \"cookies\""), status == 431, "{what}");
        let Some(code) = code else {
            assert!(body.starts_with("<!"), "{what}");
            continue;
        };
        assert!(head.contains("x-request-id: req_") && head.contains("content-type: application/json"), "{what}");
        let error = &serde_json::from_str::<serde_json::Value>(body).expect(&what)["error"];
        assert_eq!(error["code"], code, "{what}");
        assert_eq!(error.as_object().unwrap().len(), if code == "invalid_request" { 2 } else { 4 }, "{what}");
    }
}

#[tokio::test]
async fn what_is_not_modern_tls_is_turned_away() {
    let world = world_with_site().await;
    // A ClientHello of TLS 1.0 with one cipher suite (RSA with AES-128-CBC) and no extension.
    let mut hello = vec![0x03, 0x01];
    hello.extend([7; 32]);
    hello.extend([0x00, 0x00, 0x02, 0x00, 0x2f, 0x01, 0x00]);
    let mut handshake = vec![0x01, 0x00, 0x00, u8::try_from(hello.len()).unwrap()];
    handshake.extend(&hello);
    let mut old = vec![0x16, 0x03, 0x01, 0x00, u8::try_from(handshake.len()).unwrap()];
    old.extend(&handshake);
    for bytes in [old, get(HOST), vec![0; 1000], b"SSH-2.0-OpenSSH\r\n".to_vec(), vec![0x16, 0x03, 0x01, 0xff, 0xff]] {
        let mut stream = TcpStream::connect(("127.0.0.1", world.public_port())).await.unwrap();
        let answer = converse(&mut stream, &bytes).await;
        assert!(answer.is_empty() || answer[0] == 0x15 || statuses(&answer) == [400], "{answer:?}");
    }
    assert_alive(&world).await;
}

#[tokio::test]
async fn stalled_handshakes_are_ended_and_block_nobody() {
    let world = world_with_site().await;
    let mut stalled = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(("127.0.0.1", world.public_port())).await.unwrap();
        stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
        stalled.push(stream);
    }
    assert_alive(&world).await;
    for stream in &mut stalled {
        let read = tokio::time::timeout(Duration::from_mins(1), stream.read(&mut [0; 64])).await;
        assert!(read.is_ok(), "a stalled handshake is kept for ever");
    }
    assert_alive(&world).await;
}

/// The tests' Postgres has no certificate, and says so only to a program that asked for one.
#[tokio::test]
async fn programs_ask_postgres_for_tls_where_its_address_says_so() {
    let world = World::start().await;
    let mut database = world.database.clone();
    database.query_pairs_mut().append_pair("sslmode", "require");
    let mut command = tokio::process::Command::new(program("admin"));
    command.arg("migrate").env("SVC__POSTGRES__URL", database.as_str());
    command.env("SVC__SECRETS__MASTER_KEY_FILE", World::master_key().await);
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("server does not support TLS"), "{said}");
}
