//! Sockets: binding them, and the accept loops.
//!
//! TLS is in [`super::tls`], HTTP in [`super::http`]. [`seats`] decides who may connect, [`shedding`] which connections
//! are closed when the machine runs short. Start with [`ConnectionAcceptor::accept_from`].

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

use edge_metrics as metrics;
use front::{ClientConnection, HostRouter};
use telemetry::{OutageLine, OutageLog};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{attended::AttendedStream, seats::SeatGuard};
pub(super) use self::{
    machine::{connections_allowed, open_files, shed_above},
    seats::{ConnectionSeat, ConnectionSeats, SeatBounds},
    shedding::shed,
    stall::StallGuard,
};
use super::{
    http::{self, Protocol},
    proxy_protocol::{self, ProxySource},
    tls::{RecordStream, TlsServer},
    upgrade::{self, Predecessor},
};

/// The sockets to listen on.
pub enum SocketSource {
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

pub(super) struct ListeningSockets {
    pub(super) https: TcpListener,
    pub(super) http: TcpListener,
    pub(super) predecessor: Option<Predecessor>,
}

impl SocketSource {
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

    pub(super) async fn listen(self) -> io::Result<ListeningSockets> {
        match self {
            Self::Bound { https, http } => {
                let [https, http] = [https, http].map(|socket| socket.listen(limits::ACCEPT_QUEUE));
                Ok(ListeningSockets { https: https?, http: http?, predecessor: None })
            }
            Self::Running { https, http, path } => {
                let ([https, http], predecessor) = upgrade::take_over(&path, https, http).await?;
                Ok(ListeningSockets { https, http, predecessor: Some(predecessor) })
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
static NO_HEADER: OutageLog = OutageLog::new();

/// One accept loop, for TLS if it has certificates, otherwise for plain HTTP.
#[derive(Clone)]
pub(super) struct ConnectionAcceptor {
    pub(super) front: Arc<HostRouter>,
    pub(super) tls: Option<Arc<TlsServer>>,
    pub(super) seats: Arc<ConnectionSeats>,
    pub(super) connections: TaskTracker,
    pub(super) stop: CancellationToken,
}

struct AcceptedConnection {
    stream: TcpStream,
    peer: SocketAddr,
    seated: SeatGuard,
    is_balancer: bool,
}

impl ConnectionAcceptor {
    pub(super) async fn accept_from(self, listener: TcpListener) {
        while let Some(AcceptedConnection { mut stream, peer, mut seated, is_balancer }) = self.next(&listener).await {
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
            seat.set_task(task.abort_handle());
        }
    }

    /// Returns the next connection, once there is room; `None` when the edge stops. Refuses clients that have used up
    /// their share before reading a byte.
    async fn next(&self, listener: &TcpListener) -> Option<AcceptedConnection> {
        let room = tokio::select! {
            room = self.seats.wait_for_room(self.tls.is_none()) => room?,
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
                        return Some(AcceptedConnection { stream, peer, seated, is_balancer });
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
    async fn identify(&self, stream: &mut TcpStream, balancer: IpAddr, seated: &mut SeatGuard) -> Option<IpAddr> {
        let client = match timeout(limits::PROXY_HEADER, proxy_protocol::read(stream)).await {
            // In version 1, a balancer's health check names the balancer itself.
            Ok(Ok(ProxySource::Client(client))) if self.front.settings().balancers.contains(client) => {
                return Some(client);
            }
            Ok(Ok(ProxySource::Client(client))) => client,
            Ok(Ok(ProxySource::Balancer)) => return Some(balancer),
            failed => {
                metrics::proxy_header_failed();
                let error = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "the header did not come in time".to_owned(),
                };
                if let Some(OutageLine { left_out, .. }) = NO_HEADER.record_failure() {
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

    async fn attend(self, stream: TcpStream, peer: IpAddr, seat: &Arc<ConnectionSeat>) {
        // Without it the kernel delays small responses; failing to set it is no reason not to serve.
        let _ = stream.set_nodelay(true);
        let peer = peer.to_canonical();
        let (account, completions) = (self.front.account(peer), seat.completions.clone());
        let first_byte = self.seats.first_byte(self.tls.is_none());
        let Some(tls) = &self.tls else {
            let (stream, connection) = (
                AttendedStream::new(StallGuard::new(stream).charged_to(account.clone()), seat.clone(), first_byte),
                ClientConnection::new(peer, false, account, completions),
            );
            return http::serve(stream, Protocol::Http1, connection, seat.clone(), self.front, self.stop).await;
        };
        // Before any memory is allocated for a handshake.
        if !matches!(timeout(first_byte, stream.peek(&mut [0])).await, Ok(Ok(1..))) {
            return tracing::debug!("no handshake began");
        }
        let stream = StallGuard::new(stream).charged_to(account.clone());
        let stream = match timeout(limits::HANDSHAKE, Box::pin(tls.handshake(stream, peer))).await {
            Ok(Ok(Some(stream))) => stream,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return tracing::debug!(%error, "handshake failed"),
            Err(_) => return tracing::debug!("handshake too slow"),
        };
        let (_, session) = stream.get_ref();
        let mut connection = ClientConnection::new(peer, true, account.clone(), completions);
        connection.place = session.server_name().and_then(|name| self.front.connected_place(connection.peer, name));
        let protocol = if session.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
        http::serve(
            AttendedStream::new(RecordStream::new(stream, account), seat.clone(), first_byte),
            protocol,
            connection,
            seat.clone(),
            self.front,
            self.stop,
        )
        .await;
    }
}
