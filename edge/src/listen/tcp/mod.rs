//! Sockets: binding them, and the accept loops.
//!
//! TLS is in [`super::tls`], HTTP in [`super::http`]. [`seats`] decides who may connect, [`shedding`] which connections
//! are closed when the machine runs short. Start with [`Acceptor::accept_from`].

mod attended;
mod machine;
mod seats;
mod shedding;
mod stall;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use telemetry::{Line, Outage};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{attended::Attended, seats::Seated};
pub(super) use self::{
    machine::{connections_allowed, open_files, shed_above},
    seats::{Seat, SeatBounds, Seats},
    shedding::shed,
    stall::Stall,
};
use super::{
    http::{self, Protocol},
    proxy_protocol::{self, Source},
    tls::{Records, Tls},
    upgrade::{self, Predecessor},
};
use crate::{
    front::{Connection, Front},
    limits, metrics,
};

/// The sockets to listen on.
pub enum Sockets {
    /// Bound by this process, and not yet listening.
    Bound {
        /// For HTTPS.
        https: TcpSocket,
        /// For plain HTTP.
        http: TcpSocket,
    },
    /// Held by a running edge until it hands them over.
    Running {
        /// The address for HTTPS.
        https: SocketAddr,
        /// The address for plain HTTP.
        http: SocketAddr,
        /// The path of the upgrade socket.
        path: PathBuf,
    },
}

pub(super) struct Listening {
    pub(super) https: TcpListener,
    pub(super) http: TcpListener,
    pub(super) predecessor: Option<Predecessor>,
}

impl Sockets {
    /// Binds both addresses, so that a port in use is detected before anything else happens.
    pub fn bind(https: SocketAddr, http: SocketAddr) -> io::Result<Self> {
        Ok(Self::Bound { https: bind(https)?, http: bind(http)? })
    }

    /// Binds both addresses, or plans to take them over if an edge is running.
    pub fn take_over(https: SocketAddr, http: SocketAddr, path: PathBuf) -> io::Result<Self> {
        match Self::bind(https, http) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(Self::Running { https, http, path }),
            bound => bound,
        }
    }

    pub(super) async fn listen(self) -> io::Result<Listening> {
        match self {
            Self::Bound { https, http } => {
                let [https, http] = [https, http].map(|socket| socket.listen(limits::ACCEPT_QUEUE));
                Ok(Listening { https: https?, http: http?, predecessor: None })
            }
            Self::Running { https, http, path } => {
                let ([https, http], predecessor) = upgrade::take_over(&path, https, http).await?;
                Ok(Listening { https, http, predecessor: Some(predecessor) })
            }
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Lets a restarted edge bind its port while old connections linger there.
    socket.set_reuseaddr(true)?;
    socket.bind(address).map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
    Ok(socket)
}

/// Limits the log lines about balancers without a valid PROXY header.
static NO_HEADER: Outage = Outage::new();

/// One accept loop, for TLS if it has certificates, otherwise for plain HTTP.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub(super) front: Arc<Front>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) seats: Arc<Seats>,
    pub(super) connections: TaskTracker,
    pub(super) stop: CancellationToken,
}

struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    seated: Seated,
    is_balancer: bool,
}

impl Acceptor {
    pub(super) async fn accept_from(self, listener: TcpListener) {
        while let Some(Accepted { mut stream, peer, mut seated, is_balancer }) = self.next(&listener).await {
            let (this, seat) = (self.clone(), seated.seat().clone());
            let task = self.connections.spawn(async move {
                let mut client = peer.ip();
                if is_balancer {
                    // Boxed, because most connections do not need it: a task is as large as its largest branch.
                    let identified = Box::pin(this.identify(&mut stream, client, &mut seated));
                    let Some(identified) = identified.await else { return };
                    client = identified;
                }
                this.attend(stream, client, seated.seat()).await;
                drop(seated);
            });
            seat.is_served_by(task.abort_handle());
        }
    }

    /// Returns the next connection, once there is room; `None` when the edge stops. Refuses clients that have used up
    /// their share before reading a byte.
    async fn next(&self, listener: &TcpListener) -> Option<Accepted> {
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
                    // The client of a balancer's connection is not known yet.
                    let (is_balancer, admitted) = {
                        let settings = self.front.settings();
                        let is_balancer = settings.balancers.contains(peer.ip());
                        let admit = || self.seats.admit(peer.ip(), &settings.trusted);
                        (is_balancer, if is_balancer { Ok(None) } else { admit() })
                    };
                    if let Ok(turn) = admitted {
                        let seated = self.seats.seat(room, turn, peer.ip());
                        return Some(Accepted { stream, peer, seated, is_balancer });
                    }
                    metrics::connection_refused();
                    // Lets the kernel discard the connection immediately.
                    let _ = stream.set_zero_linger();
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Reads the client's address from a balancer's connection, and seats that client. `None` if that fails, or the
    /// client has used up its share.
    async fn identify(&self, stream: &mut TcpStream, balancer: IpAddr, seated: &mut Seated) -> Option<IpAddr> {
        let client = match timeout(limits::PROXY_HEADER, proxy_protocol::read(stream)).await {
            // In version 1, a balancer's health check names the balancer itself.
            Ok(Ok(Source::Client(client))) if self.front.settings().balancers.contains(client) => return Some(client),
            Ok(Ok(Source::Client(client))) => client,
            Ok(Ok(Source::Balancer)) => return Some(balancer),
            failed => {
                metrics::proxy_header_failed();
                let error = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "the header did not come in time".to_owned(),
                };
                if let Some(Line { left_out, .. }) = NO_HEADER.fails() {
                    tracing::warn!(%balancer, error, left_out, "a balancer's connection has no header of the PROXY protocol");
                }
                return None;
            }
        };
        let admitted = self.seats.admit(client, &self.front.settings().trusted);
        let Ok(turn) = admitted else {
            metrics::connection_refused();
            let _ = stream.set_zero_linger();
            return None;
        };
        seated.identify(turn, client);
        Some(client)
    }

    async fn attend(self, stream: TcpStream, peer: IpAddr, seat: &Arc<Seat>) {
        // Without it the kernel delays small responses; failing to set it is no reason not to serve.
        let _ = stream.set_nodelay(true);
        let peer = peer.to_canonical();
        let (account, completions) = (self.front.account(peer), seat.completions.clone());
        let first_byte = self.seats.first_byte(self.tls.is_none());
        let Some(tls) = &self.tls else {
            let (stream, connection) = (
                Attended::new(Stall::new(stream).charged_to(account.clone()), seat.clone(), first_byte),
                Connection::new(peer, false, account, completions),
            );
            return http::serve(stream, Protocol::Http1, connection, seat.clone(), self.front, self.stop).await;
        };
        // Before any memory is allocated for a handshake.
        if !matches!(timeout(first_byte, stream.peek(&mut [0])).await, Ok(Ok(1..))) {
            return tracing::debug!("no handshake began");
        }
        let stream = Stall::new(stream).charged_to(account.clone());
        let stream = match timeout(limits::HANDSHAKE, Box::pin(tls.handshake(stream, peer))).await {
            Ok(Ok(Some(stream))) => stream,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return tracing::debug!(%error, "handshake failed"),
            Err(_) => return tracing::debug!("handshake too slow"),
        };
        let (_, session) = stream.get_ref();
        let mut connection = Connection::new(peer, true, account.clone(), completions);
        connection.place = session.server_name().and_then(|name| self.front.connected_place(connection.peer, name));
        let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
        http::serve(
            Attended::new(Records::new(stream, account), seat.clone(), first_byte),
            protocol,
            connection,
            seat.clone(),
            self.front,
            self.stop,
        )
        .await;
    }
}
