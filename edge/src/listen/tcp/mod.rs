//! Sockets: binding them, and the accept loops.
//!
//! TLS is in [`super::tls`], HTTP in [`super::http`]. [`seats`] says who may connect, [`shedding`] who has to go when the
//! machine runs short. Start with [`Acceptor::accept_from`].

mod attended;
mod machine;
mod seats;
mod shedding;
mod stall;

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{attended::Attended, seats::Seated};
pub(super) use self::{
    machine::{connections_allowed, memory_bytes, open_files, shed_above},
    seats::{Seat, SeatBounds, Seats},
    shedding::shed,
    stall::Stall,
};
use super::{
    http::{self, Protocol},
    tls::Tls,
};
use crate::{
    front::{Connection, Front},
    limits, metrics,
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

/// One accept loop: with certificates it speaks TLS, without it does not.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub(super) front: Arc<Front>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) seats: Arc<Seats>,
    pub(super) connections: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl Acceptor {
    pub(super) async fn accept_from(self, listener: TcpListener) {
        while let Some((stream, peer, seated)) = self.next(&listener).await {
            let (this, seat) = (self.clone(), seated.seat().clone());
            let task = self.connections.spawn(async move {
                this.attend(stream, peer, seated.seat()).await;
                drop(seated);
            });
            seat.is_served_by(task.abort_handle());
        }
    }

    /// The next connection, once there is room for it; none when we stop. Clients that have their share of connections are
    /// turned away here, before a byte of theirs is read.
    async fn next(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, Seated)> {
        let room = tokio::select! {
            room = self.seats.room(self.tls.is_none()) => room?,
            () = self.stop.cancelled() => return None,
        };
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return None,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if let Ok(turn) = self.seats.admit(peer.ip()) {
                        return Some((stream, peer, self.seats.seat(room, turn, peer.ip())));
                    }
                    metrics::connection_refused();
                    // The kernel keeps nothing of the connection either.
                    let _ = stream.set_zero_linger();
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn attend(self, stream: TcpStream, peer: SocketAddr, seat: &Arc<Seat>) {
        // Without it the kernel holds small answers back; that it cannot be set is no reason not to serve.
        let _ = stream.set_nodelay(true);
        let peer = peer.ip().to_canonical();
        let (account, completions) = (self.front.account(peer), seat.completions.clone());
        let first_byte = self.seats.first_byte(self.tls.is_none());
        let Some(tls) = &self.tls else {
            let (stream, connection) =
                (Attended::new(Stall::new(stream), seat.clone(), first_byte), Connection::new(peer, false, account, completions));
            return http::serve(stream, Protocol::Http1, connection, seat.clone(), self.front, self.stop).await;
        };
        // Before anything is kept for a handshake.
        if !matches!(timeout(first_byte, stream.peek(&mut [0])).await, Ok(Ok(1..))) {
            return tracing::debug!("no handshake began");
        }
        let stream = match timeout(limits::HANDSHAKE, Box::pin(tls.handshake(Stall::new(stream), peer))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "handshake failed"),
            Err(_) => return tracing::debug!("handshake too slow"),
        };
        let (_, session) = stream.get_ref();
        let mut connection = Connection::new(peer, true, account, completions);
        connection.place = session.server_name().and_then(|name| self.front.connected_place(connection.peer, name));
        let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
        http::serve(
            Attended::new(stream, seat.clone(), first_byte),
            protocol,
            connection,
            seat.clone(),
            self.front,
            self.stop,
        )
        .await;
    }
}
