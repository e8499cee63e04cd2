//! Sockets: accepting, TLS, HTTP, and the orderly end of it all.
//!
//! [`Listeners`] is a Pingora service. What a request means is not known here: that is [`crate::front`]. Start with
//! [`Listeners::run`].

mod certificates;
mod heads;
mod http;
mod linger;
mod multiplexed;
mod patience;
mod signals;
mod stall;
mod tickets;

use std::{io, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use domain::Clock;
use pingora::{
    server::{ListenFds, ShutdownWatch},
    services::Service,
};
use secrets::MasterKey;
use sqlx::PgPool;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Mutex, Semaphore},
    time::{sleep, timeout},
};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::signals::Stop;
use self::{certificates::Certificates, http::Protocol, stall::Stall};
use crate::{
    front::{Connection, Front},
    limits,
};

/// Work beside the connections, for as long as there are any.
pub type Background = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Both listeners, and everything that runs while they do.
pub struct Listeners {
    sockets: Option<Sockets>,
    front: Arc<Front>,
    certificates: Arc<Certificates>,
    /// In a lock only because a service is shared: futures are not.
    background: Mutex<Vec<Background>>,
    /// What the first connection waits for.
    accept_after: Mutex<Option<Background>>,
    /// Cancelled when no connection is left.
    background_stop: CancellationToken,
    stop: Stop,
    threads: usize,
}

/// The bound sockets.
pub struct Sockets {
    https: TcpSocket,
    http: TcpSocket,
}

impl Sockets {
    /// Takes both addresses, so that a taken port is known before anything else happens.
    pub fn bind(https: SocketAddr, http: SocketAddr) -> io::Result<Self> {
        Ok(Self { https: bind(https)?, http: bind(http)? })
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted edge takes its port although old connections still linger there.
    socket.set_reuseaddr(true)?;
    socket.bind(address).map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
    Ok(socket)
}

impl Listeners {
    /// Listeners on `sockets` before `front`.
    pub fn new(
        sockets: Sockets,
        front: Arc<Front>,
        tls: (PgPool, MasterKey, Clock),
        site_domain: &str,
        threads: usize,
        stop: Stop,
    ) -> Result<Self, rustls::Error> {
        let (db, master_key, clock) = tls;
        let certificates = Arc::new(Certificates::new(db, master_key, clock, site_domain)?);
        let background_stop = CancellationToken::new();
        Ok(Self {
            sockets: Some(sockets),
            front,
            certificates,
            background: Mutex::default(),
            accept_after: Mutex::default(),
            background_stop,
            stop,
            threads,
        })
    }

    /// Cancelled when the last connection is gone: for background work that has something to finish then.
    pub fn background_stop(&self) -> CancellationToken {
        self.background_stop.clone()
    }

    /// Runs `work` beside the connections; cut off at the end if it does not heed [`Self::background_stop`].
    pub fn add_background(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.get_mut().push(Box::pin(work));
    }

    /// Keeps connections from being accepted until `ready`, but not longer than [`limits::READY_WAIT`].
    pub fn accept_after(&mut self, ready: impl Future<Output = ()> + Send + 'static) {
        *self.accept_after.get_mut() = Some(Box::pin(ready));
    }

    async fn run(&mut self) -> io::Result<()> {
        let Some(sockets) = self.sockets.take() else { return Ok(()) };

        let background = TaskTracker::new();
        for work in self.background.get_mut().drain(..) {
            let stop = self.background_stop.clone();
            background.spawn(async move {
                tokio::select! {
                    () = work => {}
                    () = async { stop.cancelled().await; sleep(limits::LAST_WORD).await } => {}
                }
            });
        }
        let (certificates, stop) = (self.certificates.clone(), self.background_stop.clone());
        background.spawn(async move {
            tokio::select! {
                () = certificates.watch() => {}
                () = stop.cancelled() => {}
            }
        });

        if let Some(ready) = self.accept_after.get_mut().take()
            && timeout(limits::READY_WAIT, ready).await.is_err()
        {
            tracing::warn!("admin cannot be told of this edge yet; serving all the same");
        }
        let (https, http) = (sockets.https.listen(limits::ACCEPT_QUEUE)?, sockets.http.listen(limits::ACCEPT_QUEUE)?);
        tracing::info!(https = %https.local_addr()?, http = %http.local_addr()?, "listening");

        let connections = TaskTracker::new();
        let permits = Arc::new(Semaphore::new(connections_allowed()));
        let secure = Acceptor {
            front: self.front.clone(),
            certificates: Some(self.certificates.clone()),
            permits: permits.clone(),
            connections: connections.clone(),
            stop: self.stop.asked(),
        };
        let plain = Acceptor { certificates: None, ..secure.clone() };
        tokio::join!(secure.accept_from(https), plain.accept_from(http));

        connections.close();
        if timeout(limits::DRAIN, connections.wait()).await.is_err() {
            tracing::warn!(connections = connections.len(), "stopping although these connections are still busy");
        }
        self.background_stop.cancel();
        background.close();
        background.wait().await;
        Ok(())
    }
}

#[async_trait]
impl Service for Listeners {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
        if let Err(error) = self.run().await {
            tracing::error!(%error, "cannot listen");
        }
        self.stop.done();
    }

    fn name(&self) -> &'static str {
        "edge"
    }

    fn threads(&self) -> Option<usize> {
        Some(self.threads)
    }
}

/// As many as the process may open files, less what it needs for itself.
fn connections_allowed() -> usize {
    let limits_file = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits_file
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|values| values.split_whitespace().next()?.parse::<usize>().ok());
    let allowed = files.map_or(limits::CONNECTIONS, |files| files.saturating_sub(limits::SPARE_FILES).max(1));
    allowed.min(limits::CONNECTIONS)
}

/// One accept loop: with certificates it speaks TLS, without it does not.
#[derive(Clone)]
struct Acceptor {
    front: Arc<Front>,
    certificates: Option<Arc<Certificates>>,
    permits: Arc<Semaphore>,
    connections: TaskTracker,
    stop: CancellationToken,
}

impl Acceptor {
    async fn accept_from(self, listener: TcpListener) {
        while let Some((stream, peer, permit)) = self.next(&listener).await {
            let this = self.clone();
            self.connections.spawn(async move {
                this.attend(stream, peer).await;
                drop(permit);
            });
        }
    }

    /// The next connection, once there is room for it; none when we stop.
    async fn next(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
        let permit = tokio::select! {
            permit = self.permits.clone().acquire_owned() => permit.ok()?,
            () = self.stop.cancelled() => return None,
        };
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return None,
            };
            match accepted {
                Ok((stream, peer)) => return Some((stream, peer, permit)),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn attend(self, stream: TcpStream, peer: SocketAddr) {
        // Without it the kernel holds small answers back; that it cannot be set is no reason not to serve.
        let _ = stream.set_nodelay(true);
        let stream = Stall::new(stream);
        let mut connection = Connection { peer: peer.ip().to_canonical(), tls: false, application: None };
        let Some(certificates) = &self.certificates else {
            return http::serve(stream, Protocol::Http1, connection, self.front, self.stop).await;
        };
        let stream = match timeout(limits::HANDSHAKE, Box::pin(handshake(stream, certificates))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "handshake failed"),
            Err(_) => return tracing::debug!(%peer, "handshake too slow"),
        };
        let (_, session) = stream.get_ref();
        connection.tls = true;
        connection.application =
            session.server_name().and_then(|name| self.front.application(peer.ip().to_canonical(), name));
        let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
        http::serve(stream, protocol, connection, self.front, self.stop).await;
    }
}

/// The certificate is looked up between the visitor's first message and our answer to it.
async fn handshake(stream: Stall<TcpStream>, certificates: &Certificates) -> io::Result<TlsStream<Stall<TcpStream>>> {
    let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
    let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
    let config = certificates.config_for(name.as_deref()).await;
    start.into_stream(config).await
}
