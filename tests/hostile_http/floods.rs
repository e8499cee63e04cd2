//! Floods of HTTP/2 frames.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{API, SITE, assert_alive, connect, world_with_sites};
use crate::world::frames::{self, *};

/// Attacks in HTTP/2 frames, each enough to hurt a server that bounds nothing.
fn floods(host: &str) -> Vec<(&'static str, Vec<u8>)> {
    let get = get(host);
    let odd = |n: u32| 2 * n + 1;
    let many = |count: u32, make: &dyn Fn(u32) -> Vec<u8>| (0..count).flat_map(make).collect::<Vec<u8>>();
    let cancel = 8_u32.to_be_bytes();
    vec![
        (
            "rapid reset",
            many(20_000, &|n| {
                [frame(HEADERS, END_STREAM | END_HEADERS, odd(n), &get), frame(RST_STREAM, 0, odd(n), &cancel)].concat()
            }),
        ),
        // MadeYouReset: the server is brought to reset the streams itself.
        (
            "made you reset",
            many(20_000, &|n| {
                [frame(HEADERS, END_STREAM | END_HEADERS, odd(n), &get), frame(WINDOW_UPDATE, 0, odd(n), &[0; 4])]
                    .concat()
            }),
        ),
        ("endless CONTINUATION", {
            let mut bytes = frame(HEADERS, END_STREAM, 1, &get);
            // A literal field of an empty name's kin: 0x00, name "x", value "y", over and over.
            bytes.extend(many(20_000, &|_| frame(CONTINUATION, 0, 1, &[0, 1, b'x', 1, b'y'].repeat(20))));
            bytes
        }),
        ("HPACK bomb", {
            // One entry of 4,000 bytes in the dynamic table, then a reference to it, 16,000 times a request.
            let mut block = get.clone();
            block.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
            block.extend([b'y'; 4000]);
            let references = vec![0xbe; 12_000];
            let first = [block, references.clone()].concat();
            let mut later = get.clone();
            later.extend(&references);
            let mut bytes = frame(HEADERS, END_STREAM | END_HEADERS, 1, &first);
            bytes.extend(many(200, &|n| frame(HEADERS, END_STREAM | END_HEADERS, odd(n + 1), &later)));
            bytes
        }),
        ("PING flood", many(200_000, &|_| frame(PING, 0, 0, &[0; 8]))),
        ("SETTINGS flood", many(200_000, &|_| frame(SETTINGS, 0, 0, &[]))),
        ("PRIORITY flood", many(200_000, &|n| frame(PRIORITY, 0, odd(n), &[0, 0, 0, 0, 1]))),
        ("empty DATA flood", {
            let mut bytes = frame(HEADERS, END_HEADERS, 1, &get);
            bytes.extend(many(200_000, &|_| frame(DATA, 0, 1, &[])));
            bytes
        }),
        ("frames that lie about their length", vec![0xff; 100_000]),
        ("a header with a line break", {
            let mut block = get.clone();
            block.extend([0, 1, b'x', 12]);
            block.extend(b"a\r\nevil: yes");
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
        }),
        ("an upper-case header", {
            let mut block = get.clone();
            block.extend([0, 1, b'X', 1, b'y']);
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
        }),
        ("transfer-encoding in HTTP/2", {
            let mut block = get.clone();
            block.extend([0, 17]);
            block.extend(b"transfer-encoding");
            block.push(7);
            block.extend(b"chunked");
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
        }),
    ]
}

#[tokio::test]
async fn floods_of_http2_frames_hurt_nobody() {
    let world = world_with_sites().await;
    assert_alive(&world).await;
    for host in [SITE, API] {
        for (what, bytes) in floods(host) {
            let before = world.edge().process.memory("VmRSS");
            let stream = connect(&world, host, "h2").await;
            let (mut reader, mut writer) = tokio::io::split(stream);
            let attack = async {
                let _ = writer.write_all(&frames::start()).await;
                let _ = writer.write_all(&bytes).await;
                let _ = writer.flush().await;
            };
            let listen = async {
                let mut sink = vec![0; 64 * 1024];
                while let Ok(1..) = reader.read(&mut sink).await {}
            };
            // A server that has said goodbye may stop reading: then there is nobody left to attack.
            let attack = async {
                tokio::select! {
                    _ = timeout(Duration::from_secs(30), attack) => {}
                    () = listen => {}
                }
            };
            let neighbour = async {
                for _ in 0..5 {
                    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
                }
            };
            tokio::join!(attack, neighbour);
            let growth = world.edge().process.memory("VmRSS").saturating_sub(before);
            assert!(growth < 64 * 1024 * 1024, "{host}: {what}: the edge grew by {growth} bytes");
        }
    }
    assert_alive(&world).await;
}
