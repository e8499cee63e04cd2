//! Connections that say nothing: of one client there are only so many, and none of them stays for long.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{PATIENCE, attacker, platform_floods::open_files};
use crate::world::{Site, World, eventually, socket::connect_from};

const CONNECTIONS: usize = 120;
const PER_CLIENT: usize = 20;
/// What plain HTTP may have of them.
const PLAIN: usize = 90;
/// Visitors over HTTPS, fewer than there is room for.
const VISITORS: usize = 10;
/// Longer than a silent connection may stay, and shorter than it may take over a handshake or a request's head.
const SILENCE: Duration = Duration::from_secs(8);

async fn world_with_site() -> World {
    let world = World::builder()
        .set("EDGE__CONNECTIONS", CONNECTIONS)
        .set("EDGE__CONNECTIONS_PER_CLIENT", PER_CLIENT)
        .start()
        .await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    world
}

/// Whether the other side has closed the connection.
pub(super) fn is_closed(stream: &TcpStream) -> bool {
    let mut byte = [0];
    !matches!(stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// How many of the connections the edge has not closed, once it has decided about all.
async fn kept(streams: &[TcpStream]) -> usize {
    let refused = streams.len().saturating_sub(PER_CLIENT);
    let closed = async || streams.iter().filter(|stream| is_closed(stream)).count();
    eventually(PATIENCE, "who is beyond the share is turned away", async || closed().await >= refused).await;
    streams.len() - closed().await
}

#[tokio::test]
async fn one_client_has_its_share_of_connections() {
    let world = world_with_site().await;
    for port in [world.edge().https_port, world.edge().http_port] {
        let start = Instant::now();
        let silent = join_all((0..2 * CONNECTIONS).map(|_| connect_from(attacker(1), port))).await;
        let mut silent: Vec<_> = silent.into_iter().flatten().collect();
        let kept = kept(&silent).await;
        assert!(kept <= PER_CLIENT, "{kept} connections of one client");
        for _ in 0..10 {
            let browser = world.edge().another_browser(true);
            let visit = browser.get(world.site_url("engine")).send();
            let answer = timeout(PATIENCE, visit).await.expect("another client is served").unwrap();
            assert_eq!(answer.status(), 200);
        }
        for stream in &mut silent {
            let closed = timeout(SILENCE.saturating_sub(start.elapsed()), stream.read_u8()).await;
            assert!(closed.is_ok(), "a silent connection at {port} stays for {:?}", start.elapsed());
        }
    }
}

#[tokio::test]
async fn plain_http_leaves_room_for_https() {
    let world = world_with_site().await;
    let (port, pid) = (world.edge().http_port, world.edge().process.pid());
    let before = open_files(pid);
    let opened = || open_files(pid).saturating_sub(before);
    let plain = (1..=12).flat_map(|number| (0..PER_CLIENT).map(move |_| attacker(number)));
    let begun = plain.map(|source| async move {
        // One beyond the share of its client may be gone already.
        let mut stream = connect_from(source, port).await.ok()?;
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n").await;
        Some(stream)
    });
    let _begun = join_all(begun).await;
    eventually(PATIENCE, "plain HTTP has all it may have", async || opened() >= PLAIN - VISITORS).await;
    for _ in 0..VISITORS {
        let browser = world.edge().another_browser(false);
        let visit = timeout(PATIENCE, browser.get(world.site_url("engine")).send()).await;
        assert_eq!(visit.expect("HTTPS has room").unwrap().status(), 200);
        // Had it everything, visitors over HTTPS would wait until some of it is shed.
        assert!(opened() <= PLAIN + VISITORS, "{} connections", opened());
    }
}
