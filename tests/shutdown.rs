//! SIGTERM: the edge ends, and every request that it has begun is answered.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rustls::version::TLS13;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use crate::world::{
    Site, World,
    frames::{self, ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, frame},
    site::noise,
    socket::{connect_tls, tls},
};

const HOST: &str = "engine.svc.localhost";
const CONNECTIONS: usize = 8;
/// Requests that a connection has under way.
const AT_ONCE: usize = 16;
/// Answers on each connection before the edge is stopped.
const WARM: usize = 200;
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_heeds_goaway_loses_no_request() {
    let mut world = World::start().await;
    let body = noise(40_000);
    let len = body.len();
    world.user("ada").await.publish("engine", &Site::new().file("index.html", body)).await;
    let (warm, mut warmed) = tokio::sync::mpsc::channel(CONNECTIONS);
    let visits: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let config = Arc::new(tls(world.ca(), &[&TLS13], &["h2"]));
            let (port, warm) = (world.public_port(), warm.clone());
            tokio::spawn(async move {
                let stream = connect_tls(port, HOST, config).await.unwrap();
                timeout(PATIENCE, ask_until_goaway(stream, len, warm)).await.expect("the edge says goodbye")
            })
        })
        .collect();
    for _ in 0..CONNECTIONS {
        warmed.recv().await.unwrap();
    }
    let status = tokio::task::block_in_place(|| world.edges[0].process.stop());
    assert!(status.success(), "{status}");
    for visit in visits {
        let unanswered = visit.await.unwrap();
        assert!(
            unanswered.is_empty(),
            "requests that were sent before GOAWAY came, and what came of them: {unanswered:?}"
        );
    }
}

/// Keeps requests under way until the server says GOAWAY, then sends no more, and reads to the end. What it gives back
/// was asked for and never answered whole: bytes by stream.
async fn ask_until_goaway(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    len: usize,
    warm: tokio::sync::mpsc::Sender<()>,
) -> HashMap<u32, usize> {
    // Windows so large that they never matter.
    let window = [&[0, 4][..], &0x7fff_ffff_u32.to_be_bytes()].concat();
    let more = (0x7fff_ffff_u32 - 65_535).to_be_bytes();
    let start = [frames::PREFACE.to_vec(), frame(SETTINGS, 0, 0, &window), frame(frames::WINDOW_UPDATE, 0, 0, &more)];
    stream.write_all(&start.concat()).await.unwrap();
    let (mut next, mut answered, mut goaway) = (1, 0, false);
    let mut open = HashMap::new();
    loop {
        while !goaway && open.len() < AT_ONCE {
            let request = frame(HEADERS, END_STREAM | END_HEADERS, next, &frames::get(HOST));
            stream.write_all(&request).await.unwrap();
            open.insert(next, 0);
            next += 2;
        }
        stream.flush().await.unwrap();
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return open;
        }
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            return open;
        }
        let (kind, flags) = (head[3], head[4]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match kind {
            DATA => {
                *open.get_mut(&id).expect("an answer to something asked") += payload.len();
                if flags & END_STREAM != 0 && open[&id] == len {
                    open.remove(&id);
                    answered += 1;
                    if answered == WARM {
                        warm.send(()).await.unwrap();
                    }
                }
            }
            GOAWAY => goaway = true,
            RST_STREAM => panic!("stream {id} was reset: {payload:?}"),
            // Behind every request that was sent before, as this client has one order for all it says.
            PING if flags & ACK == 0 => stream.write_all(&frame(PING, ACK, 0, &payload)).await.unwrap(),
            SETTINGS if flags & ACK == 0 => stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await.unwrap(),
            _ => {}
        }
    }
}
