//! A few clients without an account that are greedy together: each has less the fewer are left, and others are served as before.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use futures_util::future::join_all;
use rustls::version::TLS13;
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::client::TlsStream;

use super::{
    MEMORY_MIB, PATIENCE, attacker, pause, platform_floods,
    slow_http2_readers::{Attacker, get_path},
};
use crate::{
    metrics::Page,
    world::{
        Site, World, eventually,
        frames::{PREFACE, SETTINGS, WINDOW_UPDATE, frame},
        ports,
        site::noise,
        socket::{connect_tls_from, tls},
    },
};

const API: &str = "api.svc.localhost";
/// Clients that have everything together where each has a sixteenth.
const CLIENTS: u8 = 17;
/// Turns to the platform: as many as the clients' connections have places.
const TURNS: usize = 256;
/// Requests of another client while the others are greedy.
const PROBES: usize = 40;
/// Requests on each connection of those who take nothing.
const STREAMS: u32 = 100;
const LARGE_BYTES: usize = 8_000_000;

/// How long another client's requests take, of which each is answered.
async fn probe(world: &World) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..PROBES {
        let start = Instant::now();
        let url = "https://api.svc.localhost/auth/device";
        let answer = timeout(PATIENCE, world.edge().get("https://api.svc.localhost/health").attempt()).await;
        answer.expect("nobody waits").unwrap().assert_status(200);
        took.push(start.elapsed());
        let posted = timeout(PATIENCE, world.edge().post(url).json(&serde_json::json!({})).attempt()).await;
        let status = posted.expect("nobody waits").unwrap().status;
        // Admin's own limit of unknown clients is another one.
        assert!(status.is_success() || status == 429, "{status}");
        pause(Duration::from_millis(25)).await;
    }
    took.sort();
    took
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figures, with `--nocapture`")]
async fn seventeen_clients_leave_the_platform_to_others() {
    let world = World::builder().set("EDGE__PLATFORM_REQUESTS", TURNS).start().await;
    let mut kept = Vec::new();
    for number in 1..=CLIENTS {
        kept.push(Attacker::begin(&world, attacker(number), API, "/docs").await.unwrap());
    }
    let stalled = probe(&world).await;
    drop(kept);
    let mut kept = Vec::new();
    for number in 1..=CLIENTS {
        kept.push(platform_floods::hold(&world, attacker(number), "100000").await.unwrap());
    }
    let slow = probe(&world).await;
    drop(kept);
    for (what, took) in [("answers that are not taken", stalled), ("bodies that do not come", slow)] {
        println!("{what}: median {:?}, p99 {:?}", took[PROBES / 2], took[PROBES * 99 / 100]);
    }
}

/// A connection whose streams may send a megabyte each, and of which nothing is read.
async fn take_nothing(world: &World, source: Ipv4Addr, host: &str, path: &str) -> Option<TlsStream<TcpStream>> {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["h2"]));
    let mut stream = connect_tls_from(source, world.public_port(), host, config).await.ok()?;
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0x10, 0, 0])].concat();
    bytes.extend(frame(WINDOW_UPDATE, 0, 0, &0x7000_0000_u32.to_be_bytes()));
    bytes.extend((0..STREAMS).flat_map(|number| get_path(2 * number + 1, host, path)));
    stream.write_all(&bytes).await.ok()?;
    stream.flush().await.ok()?;
    Some(stream)
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figures, with `--nocapture`")]
async fn clients_that_take_nothing_leave_memory_for_visitors() {
    const CONNECTIONS: usize = 6;
    let port = ports::free();
    let world = World::builder()
        .set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB"))
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
        .start()
        .await;
    let ada = world.user("ada").await;
    let large = noise(LARGE_BYTES);
    ada.publish("album", &Site::page("home").file("large.bin", &large)).await;
    let url = world.site_url("album");
    let (page, file) = (format!("{url}/"), format!("{url}/large.bin"));
    world.edge().get(&file).await.assert_status(200);
    let before = world.edge().process.memory("VmRSS");
    for clients in [5, 16] {
        let attackers = (0..clients * CONNECTIONS).map(|number| {
            let source = attacker(u8::try_from(number / CONNECTIONS + 1).unwrap());
            take_nothing(&world, source, "album.svc.localhost", "/large.bin")
        });
        let held = join_all(attackers).await;
        for round in 0..4 {
            let start = Instant::now();
            let small = timeout(PATIENCE, world.edge().get(&page).attempt()).await.expect("a page does not wait");
            small.unwrap().assert_body(200, "home");
            let small = start.elapsed();
            let taken = timeout(PATIENCE, world.edge().get(&file).attempt()).await.expect("a download does not wait");
            let taken = taken.unwrap().assert_status(200);
            assert_eq!(taken.body.len(), LARGE_BYTES);
            let used = Page::of(port).await.labelled("svc_edge_memory_bytes", r#"kind="in_flight""#).unwrap();
            let grown = world.edge().process.memory("VmRSS").saturating_sub(before) / 1_000_000;
            println!(
                "{clients} clients, round {round}: page {small:?}, file {:?}, {used} in flight, {grown} MB more",
                start.elapsed()
            );
            pause(Duration::from_millis(500)).await;
        }
        drop(held);
    }
    let grown = world.edge().process.memory("VmRSS").saturating_sub(before);
    assert!(grown < MEMORY_MIB * 1024 * 1024, "the edge grew by {grown} bytes");
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figures, with `--nocapture`")]
async fn what_answers_of_admin_take_is_what_is_counted() {
    const CONNECTIONS: usize = 16;
    /// What is taken beyond what is counted, at most.
    const BEYOND: f64 = 0.1;
    let port = ports::free();
    let world = World::builder().set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}")).start().await;
    let used =
        async || Page::of(port).await.labelled("svc_edge_memory_bytes", r#"kind="in_flight""#).unwrap_or_default();
    let rss = || 1_000.0 * f64::from(u32::try_from(world.edge().process.memory("VmRSS") / 1_000).unwrap());
    let hold = async |path: &'static str| {
        let mut kept = Vec::new();
        for number in 0..CONNECTIONS {
            let source = attacker(u8::try_from(number % 8 + 1).unwrap());
            kept.push(Attacker::begin_with(&world, source, API, path, 16).await.unwrap());
        }
        let mut before = -1.0;
        eventually(PATIENCE, "all of them have come", async || {
            pause(Duration::from_millis(500)).await;
            let now = used().await;
            std::mem::replace(&mut before, now) >= now && now > 0.0
        })
        .await;
        kept
    };
    // What a process takes once it keeps.
    drop(hold("/docs").await);
    eventually(PATIENCE, "it is given back", async || used().await < 100_000.0).await;
    for path in ["/docs"] {
        let before = (rss(), used().await);
        let kept = hold(path).await;
        let (took, counted) = (rss() - before.0, used().await - before.1);
        println!("{path}: {took} bytes taken, {counted} counted");
        assert!(took <= counted * (1.0 + BEYOND), "{path}: {took} bytes are taken, {counted} are counted");
        drop(kept);
        eventually(PATIENCE, "it is given back", async || used().await < 100_000.0).await;
    }
}
