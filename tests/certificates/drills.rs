//! What happens once in some years: every certificate is to be replaced, a busy site is renewed, DNS says one thing to us and
//! another to the authority.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use rustls::{client::Resumption, version::TLS13};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::client::TlsStream;

use super::{DOMAIN, Stage};
use crate::{
    BACKGROUND,
    world::{
        eventually,
        name_server::NameServer,
        pebble::Faults,
        socket::{connect_tls, tls},
    },
};

/// Domains of the drill. `bench/run --only certificates` has 500.
const DRILLED: usize = 30;
/// Visitors of each edge that come all the time, and the renewals that they live through.
const VISITORS: usize = 4;
const RENEWALS: usize = 5;

#[tokio::test]
async fn when_every_window_is_pulled_forward_every_certificate_is_replaced() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    let names: Vec<String> = (0..DRILLED).map(|number| format!("www.drilled{number}.example")).collect();
    proxy.set(|mood| mood.renew_in(2099));
    for name in &names {
        stage.attach(name).await;
    }
    let count = i64::try_from(DRILLED).unwrap();
    let live = "SELECT count(*) FROM certificate_orders WHERE state = 'live'";
    eventually(BACKGROUND * 4, "all are live", async || stage.world.sql_number(live).await == count).await;
    stage.world.sql("CREATE TABLE before AS SELECT name, certificate_id FROM certificate_orders").await;

    proxy.set(|mood| mood.renew_in(2020));
    stage.world.sql("UPDATE certificate_orders SET ask_window_at = now()").await;
    let replaced = "SELECT count(*) FROM certificate_orders o JOIN before b USING (name)
                    WHERE o.certificate_id <> b.certificate_id AND o.state = 'live'";
    eventually(BACKGROUND * 4, "all are replaced", async || stage.world.sql_number(replaced).await >= count).await;
    assert!(proxy.asked().replacing >= DRILLED, "each says what it replaces");
    for name in &names {
        assert!(stage.is_trusted(name).await, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_breaks_no_handshake_and_no_connection() {
    let stage = Stage::start(Faults::default(), |world| world.edges(3)).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let file = stage.folder.path().join("root.pem");
    std::fs::write(&file, stage.pebble.root_pem().await).unwrap();
    let mut client = tls(&file, &[&TLS13], &["http/1.1"]);
    client.resumption = Resumption::disabled();
    let client = Arc::new(client);
    let mut held = Vec::new();
    for edge in &stage.world.edges {
        let mut stream = connect_tls(edge.https_port, DOMAIN, client.clone()).await.unwrap();
        // One that has asked for nothing yet is not held for as long.
        assert!(is_answered(&mut stream).await);
        held.push(stream);
    }

    let (is_over, made, failed) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut visitors = JoinSet::new();
    for port in stage.world.edges.iter().map(|edge| edge.https_port).cycle().take(3 * VISITORS) {
        let (client, is_over, made, failed) = (client.clone(), is_over.clone(), made.clone(), failed.clone());
        visitors.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let count = if connect_tls(port, DOMAIN, client.clone()).await.is_ok() { &made } else { &failed };
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for _ in 0..RENEWALS {
        let before = stage.certificate(DOMAIN).await;
        stage.let_renew(DOMAIN).await;
        stage.wait_for_another(DOMAIN, &before).await;
        for stream in &mut held {
            assert!(is_answered(stream).await, "a connection outlives its certificate");
        }
    }
    is_over.store(true, Ordering::Relaxed);
    visitors.join_all().await;
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {} handshakes", made.load(Ordering::Relaxed));
    assert!(made.load(Ordering::Relaxed) > RENEWALS);
    // The edges present the newest, all of them.
    let newest = stage.certificate(DOMAIN).await;
    for edge in &stage.world.edges {
        eventually(BACKGROUND, "the newest is loaded", async || {
            let _ = connect_tls(edge.https_port, DOMAIN, client.clone()).await;
            edge.process.log().contains(&newest)
        })
        .await;
    }
}

/// Whether a request is answered over a connection that stays.
async fn is_answered(stream: &mut TlsStream<TcpStream>) -> bool {
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {DOMAIN}\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"home") {
        if !matches!(stream.read_buf(&mut answer).await, Ok(1..)) {
            return false;
        }
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

#[tokio::test]
async fn dns_that_tells_the_authority_something_else_is_told_in_its_own_words() {
    let folder = tempfile::TempDir::with_prefix("svc-other-dns-").unwrap();
    let others = NameServer::start(folder.path(), "127.0.0.1").await;
    // We ask one server, the authority another: as after a change that has not reached everybody.
    let stage = Stage::start(Faults::default(), |world| world.set("ACME__RESOLVERS", others.address())).await;
    stage.names.a(DOMAIN, &["127.0.0.9"]).await;
    stage.attach(DOMAIN).await;
    stage.wait_until(DOMAIN, "blocked: The certificate authority refuses").await;
    let message = stage.state(DOMAIN).await;
    assert!(message.contains("127.0.0.9") || message.contains("refused"), "in its own words: {message}");
    stage.names.a(DOMAIN, &["127.0.0.1"]).await;
    stage.ada.post(&format!("/projects/engine/domains/{DOMAIN}/certificate/refresh")).await.assert_status(200);
    stage.expect_live(DOMAIN).await;
}
