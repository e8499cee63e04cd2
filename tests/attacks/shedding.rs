//! Connections that idle: they go before anybody has to be turned away.

use std::{sync::Arc, time::Duration};

use rustls::version::TLS13;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use super::{PATIENCE, attacker};
use crate::world::{
    Site, World, eventually,
    socket::{connect_tls_from, tls},
};

const HOST: &str = "engine.svc.localhost";
const CONNECTIONS: usize = 100;

/// A connection on which one request was answered.
pub(super) async fn idle(world: &World, number: u8) -> TlsStream<TcpStream> {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    let mut stream = connect_tls_from(attacker(number), world.public_port(), HOST, config).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"home") {
        let mut chunk = [0; 1024];
        let read = timeout(PATIENCE, stream.read(&mut chunk)).await.expect("an answer").unwrap();
        assert!(read > 0, "the edge hung up");
        answer.extend_from_slice(&chunk[..read]);
    }
    stream
}

#[tokio::test]
async fn connections_that_idle_make_room() {
    let world = World::builder().set("EDGE__CONNECTIONS", CONNECTIONS).start().await;
    world.user("ada").await.publish("engine", &Site::page("home")).await;
    let mut held = Vec::new();
    for number in 0..95 {
        held.push(idle(&world, number).await);
    }
    eventually(PATIENCE, "some of them are closed", async || {
        let mut open = Vec::new();
        for mut stream in held.drain(..) {
            if timeout(Duration::ZERO, stream.read(&mut [0])).await.is_err() {
                open.push(stream);
            }
        }
        held = open;
        held.len() <= CONNECTIONS * 9 / 10
    })
    .await;
    for _ in 0..30 {
        let browser = world.edge().another_browser(true);
        let visit = timeout(PATIENCE, browser.get(world.site_url("engine")).send()).await;
        assert_eq!(visit.expect("there is room").unwrap().status(), 200);
    }
}
