//! Sockets: accepting, TLS, HTTP, and an orderly shutdown.
//!
//! [`Listeners`] is a Pingora service. [`front`] handles request semantics. Start with [`Listeners::run`].

mod connections;
mod http;
mod pace;
pub mod proxy_protocol;
mod signals;
mod tcp;
mod tls;
mod upgrade;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use front::HostRouter;
use http_types::clients::TopClients;
use pingora::{
    server::{ListenFds, ShutdownWatch},
    services::Service,
};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    connections::ConnectionBounds,
    signals::{ShutdownController, ShutdownPeriods},
    tcp::SocketSource,
    tls::TlsServer,
};
use self::{
    tcp::{ConnectionAcceptor, ConnectionSeats, ListeningSockets},
    upgrade::HandOver,
};

/// Background work that runs alongside the connections.
pub type BackgroundTask = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Both listeners, and everything that runs alongside them.
pub struct Listeners {
    sockets: Option<SocketSource>,
    /// The path at which the next edge waits for the sockets.
    upgrade_socket: PathBuf,
    front: Arc<HostRouter>,
    tls: Arc<TlsServer>,
    /// Behind a lock only because a service must be `Sync`, and futures are not.
    background: Mutex<Vec<BackgroundTask>>,
    /// Work that has to finish before the first connection is accepted.
    accept_after: Mutex<Option<BackgroundTask>>,
    /// Cancelled when no new requests are answered any more.
    departure: CancellationToken,
    background_stop: CancellationToken,
    stop: ShutdownController,
    threads: usize,
    bounds: ConnectionBounds,
    talkers: Arc<TopClients>,
    seats: Arc<OnceLock<Arc<ConnectionSeats>>>,
}

impl Listeners {
    /// Creates listeners on `sockets`, which they hand over at `upgrade_socket`. They dispatch to `front`.
    #[expect(clippy::too_many_arguments, reason = "the parts of the program, each named where it is made")]
    pub fn new(
        sockets: SocketSource,
        upgrade_socket: PathBuf,
        front: Arc<HostRouter>,
        tls: TlsServer,
        threads: usize,
        stop: ShutdownController,
        bounds: ConnectionBounds,
        talkers: Arc<TopClients>,
    ) -> Self {
        let (departure, background_stop) = (CancellationToken::new(), CancellationToken::new());
        Self {
            sockets: Some(sockets),
            upgrade_socket,
            front,
            tls: Arc::new(tls),
            background: Mutex::default(),
            accept_after: Mutex::default(),
            departure,
            background_stop,
            stop,
            threads,
            bounds,
            talkers,
            seats: Arc::default(),
        }
    }

    /// Returns a function that counts open connections.
    pub fn connections(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let seats = self.seats.clone();
        move || seats.get().map_or(0, |seats| seats.taken_count())
    }

    /// Returns a token that is cancelled when no new requests are answered any more, although completions may still be
    /// in flight. It ends work that announces this edge to others.
    pub fn departure(&self) -> CancellationToken {
        self.departure.clone()
    }

    /// Returns a token that is cancelled after the last connection, for background work that then has to finish.
    pub fn background_stop(&self) -> CancellationToken {
        self.background_stop.clone()
    }

    /// Runs `work` alongside the connections. It is aborted at the end if it does not heed [`Self::background_stop`].
    pub fn add_background(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.get_mut().push(Box::pin(work));
    }

    /// Delays accepting connections until `ready`, but not longer than [`limits::READY_WAIT`].
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
                    () = async { stop.cancelled().await; sleep(limits::BACKGROUND_END_WAIT).await } => {}
                }
            });
        }
        let (tls, stop) = (self.tls.clone(), self.background_stop.clone());
        background.spawn(async move {
            stop.run_until_cancelled_owned(tls.load_default()).await;
        });

        if let Some(ready) = self.accept_after.get_mut().take()
            && timeout(limits::READY_WAIT, ready).await.is_err()
        {
            tracing::warn!("admin cannot be told of this edge yet; serving all the same");
        }
        let served = self.serve(sockets, &background).await;
        self.departure.cancel();
        self.background_stop.cancel();
        background.close();
        background.wait().await;
        served
    }

    async fn serve(&self, sockets: SocketSource, background: &TaskTracker) -> io::Result<()> {
        let asked = self.stop.stop_token();
        let Some(listening) = asked.run_until_cancelled(sockets.listen()).await else { return Ok(()) };
        let ListeningSockets { https, http, predecessor } = listening?;
        let hand_over = HandOver::new(self.upgrade_socket.clone(), &https, &http)?.when_asked(self.stop.clone());
        let stop = self.stop.stop_token();
        background.spawn(async move {
            stop.run_until_cancelled_owned(hand_over).await;
        });
        tracing::info!(https = %https.local_addr()?, http = %http.local_addr()?, "listening");

        let connections = TaskTracker::new();
        let seats = ConnectionSeats::new(self.bounds.seats(), self.talkers.clone());
        let _ = self.seats.set(seats.clone());
        self.stop.health().set_met("listening", true);
        let secure = ConnectionAcceptor {
            front: self.front.clone(),
            tls: Some(self.tls.clone()),
            seats: seats.clone(),
            connections: connections.clone(),
            stop: self.stop.stop_token(),
        };
        let plain = ConnectionAcceptor { tls: None, ..secure.clone() };
        let (bounds, shed_seats, stop) = (self.bounds, seats.clone(), self.background_stop.clone());
        background.spawn(async move {
            stop.run_until_cancelled_owned(tcp::shed(shed_seats, bounds)).await;
        });
        let dismiss = async {
            if let Some(predecessor) = predecessor {
                predecessor.dismiss().await;
            }
        };
        tokio::join!(secure.accept_from(https), plain.accept_from(http), dismiss);

        self.drain(&connections, &seats).await;
        Ok(())
    }

    /// Waits until started requests have ended. Connections without a completion are aborted after [`limits::DRAIN`],
    /// completions at the stop's deadline.
    async fn drain(&self, connections: &TaskTracker, seats: &ConnectionSeats) {
        let gateway = self.front.gateway();
        connections.close();
        let rest = async {
            connections.wait().await;
            // Completions of clients that have disconnected.
            gateway.wait_until_idle().await;
        };
        let mut rest = std::pin::pin!(rest);
        let is_over = tokio::select! {
            () = &mut rest => true,
            () = sleep(limits::DRAIN) => false,
            () = self.stop.deadline_passed() => false,
        };
        self.departure.cancel();
        if is_over {
            return;
        }
        let (busy, idle): (Vec<_>, Vec<_>) = seats.list().into_iter().partition(|seat| seat.completions.has_pending());
        // After a handover this is expected.
        if !idle.is_empty() && !self.stop.is_handed_over() {
            tracing::warn!(connections = idle.len(), "stopping although these connections are still busy");
            for seat in idle {
                seat.abort();
            }
        }
        tracing::info!(connections = busy.len(), "completions are under way still");
        tokio::select! {
            () = &mut rest => return,
            () = self.stop.deadline_passed() => {}
        }
        tracing::warn!("cutting off the completions that are under way");
        gateway.cut_off();
        if timeout(limits::CUT_OFF, &mut rest).await.is_ok() {
            return;
        }
        for seat in seats.list() {
            seat.abort();
        }
        let _ = timeout(limits::CUT_OFF, gateway.finish()).await;
    }
}

#[async_trait]
impl Service for Listeners {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
        let outcome = self.run().await;
        self.stop.finish(outcome);
    }

    fn name(&self) -> &'static str {
        "edge"
    }

    fn threads(&self) -> Option<usize> {
        Some(self.threads)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn systemd_waits_until_everything_has_ended() {
        let unit = include_str!("../../../deploy/systemd/svc-edge@.service");
        let wait = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
        let wait = Duration::from_secs(wait.parse().unwrap());
        let drain = Duration::from_secs(config::Edge::default().drain_seconds.into());
        // Some seconds for a busy machine.
        let needed = drain + 2 * limits::CUT_OFF + limits::BACKGROUND_END_WAIT + Duration::from_secs(5);
        assert!(needed <= wait, "an edge may take {needed:?} to stop, and systemd kills it after {wait:?}");
    }
}
