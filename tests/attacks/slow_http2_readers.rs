//! Visitors over HTTP/2 who ask for much and take next to nothing of it: a window of one byte for each stream.

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustls::version::TLS13;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::client::TlsStream;

use crate::{
    attacks::{MEMORY_MIB, pause},
    world::{
        Site, World,
        frames::*,
        site::noise,
        socket::{connect_tls_from, tls},
    },
};

const CONNECTIONS: usize = 8;
const STREAMS: u32 = 120;
/// What the edge may grow by: a small part of what 960 streams of 64 KiB, let alone of 4 MiB, would be.
const GROWTH: u64 = 48 * 1024 * 1024;
/// A stream is reset after 30 seconds; a busy machine has some more.
const RESET_WITHIN: Duration = Duration::from_secs(75);

type Writer = WriteHalf<TlsStream<TcpStream>>;

/// What all attackers have seen.
#[derive(Debug, Default)]
struct Seen {
    reset: AtomicUsize,
    taken: AtomicUsize,
}

pub(super) struct Attacker {
    reader: ReadHalf<TlsStream<TcpStream>>,
    writer: Writer,
}

/// A request for `path`.
pub(super) fn get_path(stream: u32, host: &str, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block.extend([0x01, u8::try_from(host.len()).unwrap()]);
    block.extend(host.as_bytes());
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    reader.read_exact(&mut head).await?;
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut payload = vec![0; usize::try_from(len).unwrap()];
    reader.read_exact(&mut payload).await?;
    Ok((head[3], head[4], stream, payload))
}

impl Attacker {
    pub(super) async fn begin(world: &World, source: Ipv4Addr, host: &str, path: &str) -> std::io::Result<Self> {
        Self::begin_with(world, source, host, path, STREAMS).await
    }

    /// With so many streams.
    pub(super) async fn begin_with(
        world: &World,
        source: Ipv4Addr,
        host: &str,
        path: &str,
        streams: u32,
    ) -> std::io::Result<Self> {
        let config = Arc::new(tls(world.ca(), &[&TLS13], &["h2"]));
        let stream = connect_tls_from(source, world.public_port(), host, config).await?;
        let (reader, mut writer) = tokio::io::split(stream);
        // SETTINGS_INITIAL_WINDOW_SIZE = 1; the connection's window is as large as it can be.
        let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1])].concat();
        bytes.extend(frame(WINDOW_UPDATE, 0, 0, &0x7000_0000_u32.to_be_bytes()));
        for number in 0..streams {
            bytes.extend(get_path(2 * number + 1, host, path));
        }
        writer.write_all(&bytes).await?;
        writer.flush().await?;
        Ok(Self { reader, writer })
    }

    /// Waits until the first bytes of an answer have come.
    pub(super) async fn await_data(&mut self) -> std::io::Result<()> {
        while read_frame(&mut self.reader).await?.0 != DATA {}
        Ok(())
    }

    /// Answers pings until the connection is over.
    pub(super) async fn stall(mut self) -> std::io::Result<()> {
        loop {
            let (kind, flags, _, payload) = read_frame(&mut self.reader).await?;
            if kind == PING && flags & ACK == 0 {
                self.writer.write_all(&frame(PING, ACK, 0, &payload)).await?;
                self.writer.flush().await?;
            }
        }
    }

    /// Answers pings until every stream was reset, then takes one more file whole.
    async fn await_resets(mut self, seen: &Seen, host: &str, path: &str, len: usize) {
        let asked: BTreeSet<u32> = (0..STREAMS).map(|number| 2 * number + 1).collect();
        let (mut reset, last, mut taken) = (BTreeSet::new(), 2 * STREAMS + 1, 0);
        let mut is_asked = false;
        loop {
            let (kind, flags, stream, payload) = read_frame(&mut self.reader).await.expect("the connection goes on");
            match kind {
                PING if flags & ACK == 0 => self.send(&frame(PING, ACK, 0, &payload)).await,
                RST_STREAM => {
                    assert!(asked.contains(&stream), "stream {stream} was reset");
                    reset.insert(stream);
                    seen.reset.fetch_add(1, Ordering::Relaxed);
                }
                GOAWAY => panic!("the connection was ended: {payload:?}"),
                DATA if stream == last => {
                    taken += payload.len();
                    seen.taken.fetch_add(payload.len(), Ordering::Relaxed);
                    if flags & END_STREAM != 0 {
                        assert_eq!(taken, len);
                        return;
                    }
                }
                _ => {}
            }
            if reset == asked && !is_asked {
                is_asked = true;
                let window = frame(WINDOW_UPDATE, 0, last, &0x7000_0000_u32.to_be_bytes());
                self.send(&[get_path(last, host, path), window].concat()).await;
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
        self.writer.flush().await.unwrap();
    }
}

#[tokio::test]
async fn stalled_streams_take_no_memory_and_are_reset() {
    let (small, large) = (noise(3_000_000), noise(8_000_000));
    let world = World::builder().set("EDGE__MEMORY", format!("{MEMORY_MIB} MiB")).start().await;
    let ada = world.user("ada").await;
    ada.publish("album", &Site::page("home").file("small.jpg", &small).file("large.jpg", &large)).await;
    let url = world.site_url("album");
    let host = "album.svc.localhost";
    let neighbour = world.edge().another_browser(true);
    let home = || async { neighbour.get(world.edge().address(&url)).send().await.unwrap().text().await.unwrap() };
    assert_eq!(home().await, "home");
    world.edge().get(&format!("{url}/small.jpg")).await.assert_status(200);

    // Half of them ask for what is kept in memory, half for what is not.
    let paths = |number: usize| if number.is_multiple_of(2) { "/small.jpg" } else { "/large.jpg" };
    let before = world.edge().process.memory("VmRSS");
    let mut attackers = Vec::new();
    for number in 0..CONNECTIONS {
        attackers.push(Attacker::begin(&world, Ipv4Addr::LOCALHOST, host, paths(number)).await.unwrap());
    }
    let (start, seen) = (Instant::now(), Seen::default());
    let resets = futures_util::future::join_all(attackers.into_iter().enumerate().map(|(number, attacker)| {
        let len = if number.is_multiple_of(2) { small.len() } else { large.len() };
        timeout(RESET_WITHIN, attacker.await_resets(&seen, host, paths(number), len))
    }));
    let watch = async {
        let mut most = 0;
        while start.elapsed() < Duration::from_secs(20) {
            assert_eq!(home().await, "home");
            most = world.edge().process.memory("VmRSS").max(most);
            pause(Duration::from_millis(200)).await;
        }
        most
    };
    let (resets, most) = tokio::join!(resets, watch);
    let growth = most.saturating_sub(before);
    assert!(growth < GROWTH, "the edge grew by {growth} bytes, from {before}");
    assert!(resets.iter().all(Result::is_ok), "streams that take nothing are not reset: {seen:?}");
    assert_eq!(home().await, "home");
}
