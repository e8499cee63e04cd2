//! What stands between the programs and their Redis, and can fail in its place.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use tokio::{
    io::copy,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::AbortHandle,
};

/// The address of Redis, which leads to one server at a time.
pub(super) struct Relay {
    pub(super) port: u16,
    leads_to: Arc<AtomicU16>,
    /// How many times its server vanished.
    silences: watch::Sender<u32>,
    /// How many times the answers of its server stopped.
    mutes: watch::Sender<u32>,
    server: AbortHandle,
}

/// Leads to no server: connections are accepted, and nothing is passed on.
pub(super) const NOWHERE: u16 = 0;

impl Relay {
    pub(super) async fn start(leads_to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let leads_to = Arc::new(AtomicU16::new(leads_to));
        let (silences, mutes) = (watch::Sender::new(0), watch::Sender::new(0));
        let (target, silenced, muted) = (leads_to.clone(), silences.clone(), mutes.clone());
        let server = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (target, mut silenced) = (target.load(Ordering::SeqCst), silenced.subscribe());
                let muted = muted.subscribe();
                tokio::spawn(async move {
                    if target != NOWHERE
                        && let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await
                    {
                        tokio::select! {
                            () = pass_on(client, server, muted) => return,
                            _ = silenced.changed() => {}
                        }
                    }
                    // Neither closed nor reset.
                    std::future::pending::<()>().await;
                });
            }
        });
        Self { port, leads_to, silences, mutes, server: server.abort_handle() }
    }

    /// From now on nothing is passed on, over the connections that stand and over new ones.
    pub(super) fn fall_silent(&self) {
        self.leads_to.store(NOWHERE, Ordering::SeqCst);
        self.silences.send_modify(|silences| *silences += 1);
    }

    /// From now on the server hears what is said over the connections that stand, and nobody hears its answers. New
    /// connections are as ever.
    pub(super) fn swallow_answers(&self) {
        self.mutes.send_modify(|mutes| *mutes += 1);
    }

    /// New connections lead to another server. Those that stand stay silent.
    pub(super) fn lead_to(&self, port: u16) {
        self.leads_to.store(port, Ordering::SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Passes on what both sides say, until one of them ends.
async fn pass_on(mut client: TcpStream, mut server: TcpStream, mut muted: watch::Receiver<u32>) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
    let answers = async {
        tokio::select! {
            _ = copy(&mut from_server, &mut to_client) => {}
            _ = muted.changed() => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = copy(&mut from_client, &mut to_server) => {}
        () = answers => {}
    }
}
