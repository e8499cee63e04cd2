//! A Redis whose machine vanishes without a word: connections stand, and nothing comes over them any more.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::AbortHandle,
};

use super::*;
use crate::world::{ports, process::Process};

/// The address of Redis, which leads to one server at a time.
struct Relay {
    port: u16,
    leads_to: Arc<AtomicU16>,
    /// How many times its server vanished.
    silences: watch::Sender<u32>,
    server: AbortHandle,
}

/// Leads to no server: connections are accepted, and nothing is passed on.
const NOWHERE: u16 = 0;

impl Relay {
    async fn start(leads_to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let leads_to = Arc::new(AtomicU16::new(leads_to));
        let silences = watch::Sender::new(0);
        let (target, silenced) = (leads_to.clone(), silences.clone());
        let server = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (target, mut silenced) = (target.load(Ordering::SeqCst), silenced.subscribe());
                tokio::spawn(async move {
                    if target != NOWHERE
                        && let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await
                    {
                        tokio::select! {
                            _ = copy_bidirectional(&mut client, &mut server) => return,
                            _ = silenced.changed() => {}
                        }
                    }
                    // Neither closed nor reset.
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { port, leads_to, silences, server: server.abort_handle() }
    }

    /// From now on nothing is passed on, over the connections that stand and over new ones.
    fn fall_silent(&self) {
        self.leads_to.store(NOWHERE, Ordering::SeqCst);
        self.silences.send_modify(|silences| *silences += 1);
    }

    /// New connections lead to another server. Those that stand stay silent.
    fn lead_to(&self, port: u16) {
        self.leads_to.store(port, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn redis(folder: &std::path::Path) -> (u16, Process) {
    let port = ports::free();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--port"]).arg(port.to_string()).arg("--dir").arg(folder);
    (port, Process::start(&format!("redis-{port}"), folder, &command))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_vanished_is_given_up_for_the_one_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let ((first, _first), (second, _second)) = (redis(folder.path()), redis(folder.path()));
    let relay = Relay::start(first).await;
    let url = format!("redis://127.0.0.1:{}", relay.port);
    let metered = Metered::start_with(|builder| builder.set("REDIS__URL", url)).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    let asker = metered.asker(0);
    let under_way = tokio::spawn(async move { asker.is_served(&Completion::of(10, 20).at_most(300).held()).await });
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() == 2).await;

    relay.fall_silent();
    eventually(BACKGROUND, "nothing is admitted", async || metered.ask(&Completion::of(2, 2)).await.status == 503)
        .await;
    relay.lead_to(second);
    eventually(BACKGROUND, "the other one is used", async || metered.ask(&Completion::of(3, 3)).await.status == 200)
        .await;
    metered.provider.release();
    assert!(under_way.await.unwrap());
    metered.rows_become(1, "completion_tokens = 20").await;
    assert_eq!(metered.rows("estimated").await, 0, "admin settled for an edge that lives");
    metered.assert_sums().await;
}
