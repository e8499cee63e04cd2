//! The PROXY protocol: visitors who come through a TCP load balancer count as themselves, and nobody else can say who they are.

use std::{net::Ipv4Addr, path::Path, process::Command, sync::Arc};

use rustls::version::TLS13;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Duration, timeout},
};

use crate::{
    BACKGROUND,
    metrics::Page,
    world::{
        Site, World, eventually, ports,
        process::Process,
        socket::{connect_from, connect_tls_from, converse, statuses, tls},
    },
};

const HOST: &str = "engine.svc.localhost";
/// The address that the balancer connects from, and those of visitors who connect to it.
const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const VISITORS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 7), Ipv4Addr::new(127, 0, 0, 8)];
/// Connections of one client.
const SHARE: usize = 3;

/// A world behind a balancer, and the port of the edge's metrics.
async fn balanced_world() -> (World, u16) {
    let metrics = ports::free();
    let builder = World::builder()
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .set("EDGE__PROXY_PROTOCOL_FROM", BALANCER)
        .set("EDGE__CONNECTIONS_PER_CLIENT", SHARE);
    let world = builder.start().await;
    world.user("ada").await.publish("engine", &Site::page("balanced")).await;
    (world, metrics)
}

/// `HAProxy`, which hands connections to `port` on to the edge: at each of two ports with a version of the protocol.
fn start_haproxy(folder: &Path, edge: u16, [first, second]: [u16; 2]) -> Process {
    let backend = |name: &str, port: u16, option: &str| {
        format!(
            "frontend {name}\n  bind 127.0.0.1:{port}\n  default_backend {name}\n\
             backend {name}\n  server edge 127.0.0.1:{edge} {option} source {BALANCER} check check-send-proxy inter 100 fall 1 rise 1\n"
        )
    };
    let config = format!(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n{}{}",
        backend("v2", first, "send-proxy-v2"),
        backend("v1", second, "send-proxy"),
    );
    let file = folder.join("haproxy.cfg");
    std::fs::write(&file, config).unwrap();
    let program = if Path::new("/usr/sbin/haproxy").exists() { "/usr/sbin/haproxy" } else { "haproxy" };
    Process::start("haproxy", folder, Command::new(program).arg("-db").arg("-f").arg(file))
}

#[tokio::test]
async fn visitors_behind_haproxy_are_told_apart() {
    let (world, metrics) = balanced_world().await;
    let balancers = [ports::free(), ports::free()];
    let _haproxy = start_haproxy(world.folder(), world.public_port(), balancers);
    let client = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    for (port, visitor) in balancers.into_iter().zip(VISITORS) {
        // Once the balancer's own look at the edge, which is no client's (LOCAL), has found it well.
        eventually(BACKGROUND, "a visitor is served", async || {
            let Ok(mut stream) = connect_tls_from(visitor, port, HOST, client.clone()).await else { return false };
            let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
            let answer = converse(&mut stream, request.as_bytes()).await;
            statuses(&answer) == [200] && answer.ends_with(b"balanced")
        })
        .await;
    }
    let top = world.admin_prints(&["edges", "top", "--count", "50"]).await;
    for visitor in VISITORS {
        assert!(top.contains(&format!("  {visitor} ")), "{visitor} in\n{top}");
    }
    assert!(!top.contains(&format!("  {BALANCER} ")), "the balancer is no client:\n{top}");
    assert!(Page::of(metrics).await.sum("svc_proxy_protocol_errors_total") < 0.5);
    // Who does not come through the balancer is served as before.
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "balanced");
}

/// A connection that the balancer makes on behalf of `client`, to the port of plain HTTP.
async fn on_behalf_of(client: [u8; 4], port: u16) -> TcpStream {
    let mut stream = connect_from(BALANCER, port).await.unwrap();
    let header = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", &client[..], &[10, 0, 0, 1, 0, 80, 0, 80]].concat();
    stream.write_all(&header).await.unwrap();
    stream
}

#[tokio::test]
async fn a_header_counts_from_the_balancer_alone_and_must_be_there() {
    let (world, metrics) = balanced_world().await;
    let port = world.edge().http_port;
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n").into_bytes();
    let errors = async || Page::of(metrics).await.sum("svc_proxy_protocol_errors_total");

    // From elsewhere it is no request, over either listener.
    let spoofed = [b"PROXY TCP4 203.0.113.9 10.0.0.1 1 80\r\n", &request[..]].concat();
    let mut stream = connect_from(Ipv4Addr::LOCALHOST, port).await.unwrap();
    let answer = converse(&mut stream, &spoofed).await;
    assert!(statuses(&answer).iter().all(|status| *status == 400), "{}", String::from_utf8_lossy(&answer));
    let mut stream = connect_from(Ipv4Addr::LOCALHOST, world.public_port()).await.unwrap();
    let answer = converse(&mut stream, &spoofed).await;
    assert!(statuses(&answer).is_empty());
    assert!(errors().await < 0.5);

    // The balancer's connections are nothing without it.
    let broken = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".to_vec();
    let older = b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\x0c\x01\x02\x03\x04\x05\x06\x07\x08\0\x50\0\x50".to_vec();
    let broken = [request.clone(), broken, older, b"PROXY TCP4 nobody\r\n".to_vec()];
    for (done, bytes) in (0_u32..).zip(&broken) {
        let mut stream = connect_from(BALANCER, port).await.unwrap();
        assert_eq!(converse(&mut stream, bytes).await, b"", "{bytes:?}");
        let counted = errors().await;
        assert!(counted > f64::from(done) + 0.5, "{counted} after {bytes:?}");
    }
    // Nor when the rest never comes.
    let mut stream = connect_from(BALANCER, port).await.unwrap();
    stream.write_all(b"PROXY TCP4 203.0").await.unwrap();
    let end = timeout(BACKGROUND, stream.read(&mut [0])).await.expect("it is not waited for for ever");
    assert!(matches!(end, Ok(0) | Err(_)));

    // Each client has its share, and no more, whoever connects for it.
    let mut held = Vec::new();
    for _ in 0..SHARE {
        let mut stream = on_behalf_of([203, 0, 113, 9], port).await;
        // Once it is answered it has its place, whatever becomes of later ones.
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n").as_bytes()).await.unwrap();
        assert_eq!(stream.read(&mut [0; 512]).await.unwrap().min(1), 1);
        held.push(stream);
    }
    let refused = async |client| {
        let mut stream = on_behalf_of(client, port).await;
        let wait = timeout(Duration::from_secs(1), stream.read(&mut [0])).await;
        matches!(wait, Ok(Ok(0) | Err(_)))
    };
    eventually(BACKGROUND, "one more is refused", async || refused([203, 0, 113, 9]).await).await;
    let mut stream = on_behalf_of([203, 0, 113, 10], port).await;
    assert_eq!(statuses(&converse(&mut stream, &request).await), [308]);
    drop(held);
    eventually(BACKGROUND, "the places are free again", async || {
        let mut stream = on_behalf_of([203, 0, 113, 9], port).await;
        statuses(&converse(&mut stream, &request).await) == [308]
    })
    .await;
}
