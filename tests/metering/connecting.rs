//! Completions of which a provider has not been asked yet, because it takes long to connect to it.

use std::net::{TcpListener, TcpStream};

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use super::{
    served::{ASKED_TOGETHER, completions, numbered, without_limits},
    *,
};

/// A provider that takes connections, and says nothing to whoever wants to speak TLS.
struct Silent {
    listener: TcpListener,
    connections: Vec<TcpStream>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { listener, connections: Vec::new() }
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.listener.local_addr().unwrap().port())
    }

    /// Waits until so many have connected.
    async fn is_called(&mut self, times: usize) {
        let Self { listener, connections } = self;
        eventually(BACKGROUND, "connections to the provider", async || {
            connections.extend(std::iter::from_fn(|| listener.accept().ok()).map(|(connection, _)| connection));
            connections.len() == times
        })
        .await;
    }
}

/// A world whose provider is silent, and the completions that it is being connected to for.
async fn connecting(
    silent: &mut Silent,
    configure: impl FnOnce(Builder) -> Builder,
) -> (Metered, Vec<JoinHandle<bool>>) {
    let url = silent.url();
    let configure = |builder| configure(without_limits(builder).set("GATEWAY__PROVIDER_URL", url));
    let metered = Metered::start_with(configure).await;
    let count = completions(5);
    let mut asking: Vec<JoinHandle<bool>> = Vec::new();
    // A client connects once for each of its first requests, and an edge lets one address have only so many connections.
    for numbers in (0..count).collect::<Vec<_>>().chunks(ASKED_TOGETHER) {
        let asker = metered.asker(0);
        asking.extend(numbers.iter().map(|number| {
            let (asker, wanted) = (asker.clone(), numbered(*number));
            tokio::spawn(async move { asker.is_served(&wanted).await })
        }));
        silent.is_called(asking.len()).await;
    }
    let reserved = i64::try_from(count).unwrap();
    eventually(BACKGROUND, "their reservations", async || asked_for_in_redis(&metered).await == Some(reserved)).await;
    (metered, asking)
}

/// Waits until nothing is reserved any more, and checks that nothing is charged.
async fn assert_nothing_charged(metered: &Metered) {
    eventually(BACKGROUND, "nothing is reserved", async || open_in_redis(metered, "").await == Some(0)).await;
    eventually(BACKGROUND, "one journal is left", async || files(&spool(metered)) <= 1).await;
    assert_eq!(metered.rows("certainty < 3").await, 0);
}

#[tokio::test]
async fn an_edge_that_is_killed_while_it_connects_to_a_provider_charges_nothing() {
    let mut silent = Silent::start();
    let (mut metered, asking) = connecting(&mut silent, |builder| builder).await;
    metered.world.edges[0].process.kill();
    assert!(join_all(asking).await.into_iter().all(|served| !served.unwrap()));
    metered.world.restart_edge(0).await;
    assert_nothing_charged(&metered).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_stopped_while_it_connects_to_a_provider_charges_nothing() {
    let mut silent = Silent::start();
    let (mut metered, asking) = connecting(&mut silent, |builder| builder.set("EDGE__DRAIN_SECONDS", 1)).await;
    let status = tokio::task::block_in_place(|| metered.world.edges[0].process.stop());
    assert!(status.success(), "{status}");
    assert!(join_all(asking).await.into_iter().all(|served| !served.unwrap()));
    assert_nothing_charged(&metered).await;
}
