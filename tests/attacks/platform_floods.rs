//! Requests for the platform: each takes an open file of the edge and one of admin, so of one client, and on one
//! connection, there are only so many.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use futures_util::future::join_all;
use rustls::version::TLS13;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use super::{MEMORY_MIB, PATIENCE, attacker, slow_http2_readers::Attacker};
use crate::{
    metrics::Page,
    world::{
        Site, World,
        answer::parse_secret,
        eventually,
        frames::{self, END_HEADERS, HEADERS, frame},
        ports, request,
        socket::{connect_tls_from, tls},
    },
};

const API: &str = "api.svc.localhost";
const STREAMS: u32 = 128;
const CONNECTIONS: usize = 8;
/// Files that neither the edge nor admin opens because of one client.
const FILES: usize = 200;

/// The head of `POST /auth/device`, whose body never comes.
fn post(length: &str) -> Vec<u8> {
    let path = "/auth/device";
    let mut block = vec![0x83, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block.extend([0x01, u8::try_from(API.len()).unwrap()]);
    block.extend(API.as_bytes());
    if !length.is_empty() {
        // content-length, by its index in the static table.
        block.extend([0x0f, 0x0d, u8::try_from(length.len()).unwrap()]);
        block.extend(length.as_bytes());
    }
    block
}

/// A connection with as many requests as there may be on one, of which the bodies never come.
pub(super) async fn hold(world: &World, source: Ipv4Addr, length: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["h2"]));
    let mut stream = connect_tls_from(source, world.public_port(), API, config).await?;
    let block = post(length);
    let mut bytes = frames::start();
    bytes.extend((0..STREAMS).flat_map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, &block)));
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    Ok(stream)
}

/// [`CONNECTIONS`] of an attacker.
async fn hold_all(world: &World, length: &str) -> Vec<TlsStream<TcpStream>> {
    let held = join_all((0..CONNECTIONS).map(|_| hold(world, attacker(1), length))).await;
    held.into_iter().map(Result::unwrap).collect()
}

/// Files that a process has open.
pub(super) fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// A visitor's client at one of the attackers' addresses.
pub(super) fn client(world: &World, number: u8) -> reqwest::Client {
    let ca = reqwest::Certificate::from_pem(&std::fs::read(world.ca()).unwrap()).unwrap();
    request::client().tls_certs_only([ca]).local_address(Some(attacker(number).into())).build().unwrap()
}

#[tokio::test]
async fn slow_bodies_of_one_client_exhaust_no_files() {
    let world = World::start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    let pids = [world.edge().process.pid(), world.admin.pid()];
    let before = pids.map(open_files);
    for length in ["10", "100000", ""] {
        let held = hold_all(&world, length).await;
        // The edge has read all of it when it answers what was sent after it.
        for _ in 0..20 {
            world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
            let other = world.edge().get("https://api.svc.localhost/health").attempt();
            timeout(PATIENCE, other).await.expect("another client reaches the platform").unwrap().assert_status(200);
        }
        for (pid, before) in pids.into_iter().zip(before) {
            let opened = open_files(pid).saturating_sub(before);
            assert!(opened < FILES, "{opened} files were opened for one client's slow bodies of {length:?} bytes");
        }
        drop(held);
    }
}

/// Clients that are slow together, each with the requests of a connection.
const CROWD: u8 = 240;

#[tokio::test]
async fn slow_bodies_of_a_crowd_without_tokens_keep_nobody_out() {
    let world = World::builder().plan(&json!({})).set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB")).start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let secret = parse_secret(&ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created()["token"]);
    let mut crowd = Vec::new();
    for number in 1..=CROWD {
        crowd.push(hold(&world, attacker(number), "10").await.unwrap());
    }
    let visit = async || {
        let visit = world.edge().get(&world.site_url("engine")).attempt();
        timeout(PATIENCE, visit).await.expect("a visitor waits for nobody").unwrap().assert_body(200, "home");
    };
    let post = async |name: &str| {
        let request = world.edge().post("https://api.svc.localhost/projects");
        let request = request.header("authorization", format!("Bearer {secret}")).json(&json!({ "name": name }));
        timeout(PATIENCE, request.attempt()).await.expect("nobody waits for long").unwrap().status
    };
    visit().await;
    // What has only just come is waited for.
    eventually(PATIENCE, "requests with a token are answered", async || post("first").await != 503).await;
    for number in 0..20 {
        visit().await;
        assert_eq!(post(&format!("further-{number}")).await, 201);
    }
    drop(crowd);
}

#[tokio::test]
async fn a_client_with_too_many_requests_is_told_to_come_again() {
    let world = World::start().await;
    let _held = hold_all(&world, "10").await;
    let greedy = client(&world, 1);
    let url = world.edge().address("https://api.svc.localhost/auth/device");
    let busy = async || {
        let sent = greedy.post(url.clone()).json(&serde_json::json!({})).send();
        let response = timeout(PATIENCE, sent).await.expect("nobody waits for long").unwrap();
        crate::world::answer::Answer::read("POST /auth/device".to_owned(), response).await
    };
    eventually(PATIENCE, "the client's share is used up", async || busy().await.status == 503).await;
    let answer = busy().await;
    assert_eq!(answer.header("retry-after"), "2");
    answer.assert_error(503, "busy");
    let other = world.edge().post("https://api.svc.localhost/auth/device").json(&serde_json::json!({}));
    assert!(other.await.status.is_success(), "another client is not the one");
}

/// Bytes in flight that the edge says it has.
async fn bytes_in_flight(metrics_port: u16) -> f64 {
    let page = Page::of(metrics_port).await;
    page.labelled("svc_edge_memory_bytes", r#"kind="in_flight""#).unwrap_or_default()
}

#[tokio::test]
async fn answers_of_admin_that_are_not_taken_are_charged() {
    /// Connections that have all requests for the platform which one client may have.
    const FULL: usize = 4;
    const REQUESTS: f64 = 64.0;
    /// What a request holds at least: the pipe to pingora-proxy, and what that reads ahead on either side.
    const BYTES: f64 = 48_000.0;
    let metrics_port = ports::free();
    let world = World::builder().set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics_port}")).start().await;
    let mut held = Vec::new();
    for _ in 0..FULL {
        held.push(Attacker::begin(&world, attacker(1), API, "/docs").await.unwrap());
    }
    let charged = async || bytes_in_flight(metrics_port).await;
    eventually(PATIENCE, "all of them are charged", async || charged().await >= REQUESTS * BYTES).await;
    let other = world.edge().get("https://api.svc.localhost/health");
    other.await.assert_status(200);
    drop(held);
    eventually(PATIENCE, "it is given back", async || charged().await < BYTES).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let world = World::start().await;
    let mut stream = hold(&world, attacker(1), "10").await.unwrap();
    let mut answer = Vec::new();
    // Its places are held for 30 s; the others have been refused long before.
    let read = async {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            answer.extend_from_slice(&chunk[..read]);
            if String::from_utf8_lossy(&answer).contains("busy") {
                return true;
            }
        }
        false
    };
    assert!(timeout(Duration::from_secs(10), read).await.is_ok_and(|refused| refused), "one connection has its share");
}

#[tokio::test]
async fn without_an_admin_the_edge_answers_in_the_platforms_shape() {
    let mut world = World::start().await;
    world.admin.kill();
    let edge = world.edge();
    let url = "https://api.svc.localhost/me";
    edge.get(url).header("accept", "application/json").await.assert_error(502, "bad_gateway");
    let given = edge.get(url).header("x-request-id", "0123456789").await;
    assert_eq!(given.header("x-request-id"), "0123456789");
    assert!(!edge.navigate("https://app.svc.localhost/").await.assert_status(502).header("x-request-id").is_empty());
    for url in ["https://api.svc.localhost/health", "https://app.svc.localhost/api/health"] {
        assert_eq!(edge.get(url).await.json(503), serde_json::json!({ "ok": false }));
    }
}
