//! Visitors over HTTP/1.1 who take a large file at a trickle: never so little that nothing moves at all.

use std::{net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::Instant,
};

use crate::{
    attacks::{MEMORY_MIB, pause},
    world::{Site, World, site::noise},
};

const READERS: usize = 60;
/// What the edge may grow by, connections included.
const GROWTH: u64 = 48 * 1024 * 1024;
/// A reader is cut after 30 seconds of waiting for it; a busy machine has some more.
const CUT_WITHIN: Duration = Duration::from_secs(75);

/// A reader whose kernel holds little, and who has asked for the file.
pub(super) async fn reader(source: Ipv4Addr, port: u16, host: &str) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4 * 1024)?;
    socket.bind((source, 0).into())?;
    let mut stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    stream.write_all(format!("GET /large.jpg HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
    Ok(stream)
}

/// Takes some bytes a second until the connection is over. Returns when that was.
pub(super) async fn trickle(mut stream: TcpStream) -> Option<Duration> {
    let start = Instant::now();
    let mut sip = [0; 200];
    while start.elapsed() < CUT_WITHIN {
        match stream.read(&mut sip).await {
            Ok(0) | Err(_) => return Some(start.elapsed()),
            Ok(_) => pause(Duration::from_secs(1)).await,
        }
    }
    None
}

fn sockets(pid: u32) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    descriptors
        .filter(|entry| {
            let target = std::fs::read_link(entry.as_ref().unwrap().path());
            target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        })
        .count()
}

#[tokio::test]
async fn a_trickle_is_cut_and_a_modest_pace_is_not() {
    let large = noise(8_000_000);
    let world =
        World::builder().set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB")).set("EDGE__HTTP_MODE", "serve").start().await;
    let ada = world.user("ada").await;
    ada.publish("album", &Site::page("home").file("large.jpg", &large)).await;
    let home = || async { world.edge().get(&world.site_url("album")).await.assert_body(200, "home") };
    home().await;

    let pid = world.edge().process.pid();
    let (before, sockets_before) = (world.edge().process.memory("VmRSS"), sockets(pid));
    let port = world.edge().http_port;
    let slow_reader = || async move { reader(Ipv4Addr::LOCALHOST, port, "album.svc.localhost").await.unwrap() };
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(tokio::spawn(trickle(slow_reader().await)));
    }
    // One who takes 20 KB a second, which is little, and enough.
    let modest = tokio::spawn({
        let mut stream = slow_reader().await;
        async move {
            let (mut taken, mut part, start) = (0, vec![0; 2_000], Instant::now());
            while start.elapsed() < CUT_WITHIN {
                taken += stream.read_exact(&mut part).await.expect("a modest reader is cut");
                pause(Duration::from_millis(100)).await;
            }
            taken
        }
    });
    let start = Instant::now();
    let mut most = 0;
    while start.elapsed() < CUT_WITHIN && sockets(pid) > sockets_before + 2 {
        home().await;
        most = world.edge().process.memory("VmRSS").max(most);
        pause(Duration::from_millis(500)).await;
    }
    let left = sockets(pid).saturating_sub(sockets_before);
    assert!(left <= 2, "{left} of {READERS} who take 200 bytes a second are still served");
    let growth = most.saturating_sub(before);
    assert!(growth < GROWTH, "the edge grew by {growth} bytes");
    assert!(modest.await.unwrap() > 200_000);
    for reader in readers {
        reader.abort();
    }
    home().await;
}
