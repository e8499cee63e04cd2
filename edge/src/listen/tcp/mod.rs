//! Sockets: binding them, and the accept loops.
//!
//! TLS is in [`super::tls`], HTTP in [`super::http`]. Start with [`Acceptor::accept_from`].

mod stall;

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(super) use self::stall::Stall;
use super::{
    http::{self, Protocol},
    tls::Tls,
};
use crate::{
    front::{Connection, Front},
    limits,
};

/// The bound sockets.
pub struct Sockets {
    pub(super) https: TcpSocket,
    pub(super) http: TcpSocket,
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

/// As many as the process may open files, less what it needs for itself.
pub(super) fn connections_allowed() -> usize {
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
pub(super) struct Acceptor {
    pub(super) front: Arc<Front>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) permits: Arc<Semaphore>,
    pub(super) connections: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl Acceptor {
    pub(super) async fn accept_from(self, listener: TcpListener) {
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
        let peer_address = peer.ip().to_canonical();
        let account = self.front.account(peer_address);
        let mut connection = Connection { peer: peer_address, tls: false, place: None, account };
        let Some(tls) = &self.tls else {
            return http::serve(stream, Protocol::Http1, connection, self.front, self.stop).await;
        };
        let stream = match timeout(limits::HANDSHAKE, Box::pin(tls.handshake(stream))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "handshake failed"),
            Err(_) => return tracing::debug!(%peer, "handshake too slow"),
        };
        let (_, session) = stream.get_ref();
        connection.tls = true;
        connection.place = session.server_name().and_then(|name| self.front.connected_place(connection.peer, name));
        let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
        http::serve(stream, protocol, connection, self.front, self.stop).await;
    }
}
