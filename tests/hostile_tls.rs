//! What a hostile client tries within TLS: nothing of it is of use, and other visitors notice nothing.

use std::{process::Stdio, sync::Arc, time::Duration};

use rustls::{
    HandshakeKind, NamedGroup,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
    },
    version::{TLS12, TLS13},
};
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use crate::world::{
    Site, World,
    socket::{connect_tls, converse, statuses, tls},
};

const HOST: &str = "engine.svc.localhost";
const OTHER: &str = "other.svc.localhost";
const PATIENCE: Duration = Duration::from_secs(20);

async fn world_with_sites() -> World {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    ada.publish("other", &Site::page("other home")).await;
    world
}

fn get(host: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").into_bytes()
}

/// Keeps the tickets of all names as those of one.
#[derive(Debug)]
struct OneName(ClientSessionMemoryCache);

impl OneName {
    fn name() -> ServerName<'static> {
        ServerName::try_from("one.example").unwrap()
    }
}

impl ClientSessionStore for OneName {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(Self::name(), group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(&Self::name())
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(Self::name(), value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(&Self::name())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.remove_tls12_session(&Self::name());
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(Self::name(), value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&Self::name())
    }
}

#[tokio::test]
async fn a_ticket_of_one_name_resumes_nothing_at_another() {
    let world = world_with_sites().await;
    for version in [&TLS12, &TLS13] {
        let mut config = tls(world.ca(), &[version], &["http/1.1"]);
        config.resumption = Resumption::store(Arc::new(OneName(ClientSessionMemoryCache::new(8))));
        let config = Arc::new(config);
        let mut kinds = Vec::new();
        for host in [HOST, HOST, OTHER, "app.svc.localhost", OTHER] {
            let mut stream = connect_tls(world.public_port(), host, config.clone()).await.unwrap();
            assert!(statuses(&converse(&mut stream, &get(host)).await).starts_with(&[200]), "{version:?}: {host}");
            kinds.push(stream.get_ref().1.handshake_kind().unwrap());
        }
        assert_eq!(kinds[1], HandshakeKind::Resumed, "{version:?}: the ticket is good at its own name");
        for (number, kind) in kinds.iter().enumerate().skip(2) {
            assert_ne!(*kind, HandshakeKind::Resumed, "{version:?}: connection {number}: {kinds:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_taken_before_the_handshake_is_over() {
    let world = world_with_sites().await;
    let mut config = tls(world.ca(), &[&TLS13], &["http/1.1"]);
    config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(8)));
    config.enable_early_data = true;
    let config = Arc::new(config);
    for number in 0..3 {
        let mut stream = connect_tls(world.public_port(), HOST, config.clone()).await.unwrap();
        assert!(!stream.get_ref().1.is_early_data_accepted(), "connection {number}");
        assert!(stream.get_mut().1.early_data().is_none(), "connection {number}: its ticket allows early data");
        assert_eq!(statuses(&converse(&mut stream, &get(HOST)).await), [200]);
        let kind = stream.get_ref().1.handshake_kind().unwrap();
        assert_eq!(kind == HandshakeKind::Resumed, number > 0, "connection {number}: {kind:?}");
    }
}

#[tokio::test]
async fn a_flood_of_key_updates_is_cut() {
    /// More than any client has a reason for.
    const UPDATES: usize = 200;
    let world = world_with_sites().await;
    let config = Arc::new(tls(world.ca(), &[&TLS13], &["http/1.1"]));
    let mut stream = connect_tls(world.public_port(), HOST, config).await.unwrap();
    let flood = async {
        for _ in 0..UPDATES {
            stream.get_mut().1.refresh_traffic_keys().unwrap();
            stream.flush().await?;
        }
        let mut sink = [0; 1024];
        while stream.read(&mut sink).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // An end in either way: an alert, or a closed connection.
    let ended = timeout(PATIENCE, flood).await;
    assert!(ended.is_ok(), "a connection that does nothing but change its keys goes on");
    let answer = converse(&mut stream, &get(HOST)).await;
    assert_eq!(statuses(&answer), [0_u16; 0], "the connection is over");
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
}

#[tokio::test]
async fn nobody_renegotiates() {
    let world = world_with_sites().await;
    let mut client = tokio::process::Command::new("openssl");
    client.args(["s_client", "-tls1_2", "-servername", HOST, "-CAfile"]).arg(world.ca());
    client.args(["-connect", &format!("127.0.0.1:{}", world.public_port())]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut client = client.spawn().expect("openssl");
    let mut input = client.stdin.take().unwrap();
    // An R at the beginning of a line has it renegotiate.
    input.write_all(b"R\n").await.unwrap();
    input.flush().await.unwrap();
    let output = timeout(PATIENCE, client.wait_with_output()).await.expect("the client gives up").unwrap();
    drop(input);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("RENEGOTIATING") && text.contains("no renegotiation"), "{text}");
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
}
