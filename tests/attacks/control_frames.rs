//! Floods of HTTP/2 frames that ask for nothing: the client is told to calm down, and its connection ends.

use std::{net::Ipv4Addr, sync::Arc};

use rustls::version::TLS13;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{PATIENCE, attacker};
use crate::world::{
    Site, World,
    frames::{self, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, SETTINGS, WINDOW_UPDATE, frame},
    socket::{connect_tls_from, tls},
};

const HOST: &str = "engine.svc.localhost";
/// Frames of a flood: far more than anybody may send, few enough to be sent at once.
pub(super) const FLOOD: usize = 5_000;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// The frames in `bytes`: kind and payload.
fn parse(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some((payload, next)) = rest.split_at_checked(length) else { break };
        found.push((*kind, payload));
        bytes = next;
    }
    found
}

/// Everything that the edge says after `bytes`, until it closes.
pub(super) async fn said_to(world: &World, source: Ipv4Addr, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["h2"]));
    let stream = connect_tls_from(source, world.public_port(), HOST, config).await?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let write = async {
        let _ = writer.write_all(&frames::start()).await;
        let _ = writer.write_all(bytes).await;
        let _ = writer.flush().await;
        std::future::pending::<()>().await;
    };
    let read = async {
        let mut said = Vec::new();
        let mut chunk = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = reader.read(&mut chunk).await {
            said.extend_from_slice(&chunk[..read]);
        }
        said
    };
    let both = async {
        tokio::select! {
            () = write => unreachable!("it never ends"),
            said = read => said,
        }
    };
    Ok(timeout(PATIENCE, both).await.expect("the connection of a client that floods is ended"))
}

#[tokio::test]
async fn a_client_that_floods_is_told_to_calm_down() {
    let world = World::start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    for (what, one) in [
        ("PING", frame(PING, 0, 0, &[0; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("an unknown type", frame(0xee, 0, 0, &[])),
    ] {
        let said = said_to(&world, attacker(1), &one.repeat(FLOOD)).await.unwrap();
        let goodbye = parse(&said).into_iter().rfind(|(kind, _)| *kind == GOAWAY);
        let (_, payload) = goodbye.unwrap_or_else(|| panic!("{what}: no goodbye"));
        assert_eq!(payload[4..8], ENHANCE_YOUR_CALM.to_be_bytes(), "{what}");
        world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
    }
}

#[tokio::test]
async fn requests_with_some_control_frames_are_no_flood() {
    const REQUESTS: u32 = 500;
    let world = World::start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["h2"]));
    let mut stream = connect_tls_from(attacker(1), world.public_port(), HOST, config).await.unwrap();
    stream.write_all(&frames::start()).await.unwrap();
    let (mut said, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    for n in 0..REQUESTS {
        let id = 2 * n + 1;
        let request = [
            frame(HEADERS, END_STREAM | END_HEADERS, id, &frames::get(HOST)),
            frame(PRIORITY, 0, id, &[0, 0, 0, 0, 1]),
            frame(PING, 0, 0, &[0; 8]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 4]),
        ];
        stream.write_all(&request.concat()).await.unwrap();
        stream.flush().await.unwrap();
        let answered = |said: &[u8]| parse(said).iter().filter(|(kind, _)| *kind == HEADERS).count();
        while answered(&said) <= n as usize {
            let read = timeout(PATIENCE, stream.read(&mut chunk)).await.expect("an answer").unwrap();
            assert!(read > 0, "the edge hung up after {n} requests");
            said.extend_from_slice(&chunk[..read]);
        }
    }
}
