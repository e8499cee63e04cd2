//! Sockets: accepting, TLS, HTTP, and the orderly end of it all.
//!
//! [`Listeners`] is a Pingora service. What a request means is not known here: that is [`crate::front`]. Start with
//! [`Listeners::run`].

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
    signals::{Periods, Stop},
    tcp::Sockets,
    tls::Tls,
};
use self::{
    tcp::{Acceptor, Listening, Seats},
    upgrade::HandOver,
};
use crate::{clients::Talkers, front::Front, limits};

/// Work beside the connections, for as long as there are any.
pub type Background = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Both listeners, and everything that runs while they do.
pub struct Listeners {
    sockets: Option<Sockets>,
    /// Where the next edge waits for them.
    upgrade_socket: PathBuf,
    front: Arc<Front>,
    tls: Arc<Tls>,
    /// In a lock only because a service is shared: futures are not.
    background: Mutex<Vec<Background>>,
    /// The work that the first connection waits for.
    accept_after: Mutex<Option<Background>>,
    /// Cancelled when no new request is answered any more.
    departure: CancellationToken,
    /// Cancelled when no connection is left.
    background_stop: CancellationToken,
    stop: Stop,
    threads: usize,
    bounds: ConnectionBounds,
    talkers: Arc<Talkers>,
    /// The seats of the connections, once there are any.
    seats: Arc<OnceLock<Arc<Seats>>>,
}

impl Listeners {
    /// Listeners on `sockets`, which they hand over at `upgrade_socket`, before `front`, with as many connections as `bounds`
    /// allows. What their clients take is counted in `talkers`.
    #[expect(clippy::too_many_arguments, reason = "the parts of the program, each named where it is made")]
    pub fn new(
        sockets: Sockets,
        upgrade_socket: PathBuf,
        front: Arc<Front>,
        tls: Tls,
        threads: usize,
        stop: Stop,
        bounds: ConnectionBounds,
        talkers: Arc<Talkers>,
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

    /// A count of the connections that are open.
    pub fn connections(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let seats = self.seats.clone();
        move || seats.get().map_or(0, |seats| seats.taken())
    }

    /// Cancelled when no new request is answered any more, though completions may still be under way: for what tells others that
    /// this edge is there.
    pub fn departure(&self) -> CancellationToken {
        self.departure.clone()
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

    /// Serves connections until it is asked to stop, and what they have begun has ended.
    async fn serve(&self, sockets: Sockets, background: &TaskTracker) -> io::Result<()> {
        let asked = self.stop.asked();
        let Some(listening) = asked.run_until_cancelled(sockets.listen()).await else { return Ok(()) };
        let Listening { https, http, predecessor } = listening?;
        let hand_over = HandOver::new(self.upgrade_socket.clone(), &https, &http)?.when_asked(self.stop.clone());
        let stop = self.stop.asked();
        background.spawn(async move {
            stop.run_until_cancelled_owned(hand_over).await;
        });
        tracing::info!(https = %https.local_addr()?, http = %http.local_addr()?, "listening");

        let connections = TaskTracker::new();
        let seats = Seats::new(self.bounds.seats(), self.talkers.clone());
        let _ = self.seats.set(seats.clone());
        self.stop.health().set_met("listening", true);
        let secure = Acceptor {
            front: self.front.clone(),
            tls: Some(self.tls.clone()),
            seats: seats.clone(),
            connections: connections.clone(),
            stop: self.stop.asked(),
        };
        let plain = Acceptor { tls: None, ..secure.clone() };
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

    /// Waits until what has begun has ended. Connections without a completion of the gateway are cut after
    /// [`limits::DRAIN`]; completions are cut off at the stop's deadline.
    async fn drain(&self, connections: &TaskTracker, seats: &Seats) {
        let gateway = self.front.gateway();
        connections.close();
        let rest = async {
            connections.wait().await;
            // Those of clients that have left.
            gateway.ended().await;
        };
        let mut rest = std::pin::pin!(rest);
        let is_over = tokio::select! {
            () = &mut rest => true,
            () = sleep(limits::DRAIN) => false,
            () = self.stop.overdue() => false,
        };
        self.departure.cancel();
        if is_over {
            return;
        }
        let (busy, idle): (Vec<_>, Vec<_>) = seats.list().into_iter().partition(|seat| seat.completions.any());
        // After a hand-over nobody waits for us.
        if !idle.is_empty() && !self.stop.is_handed_over() {
            tracing::warn!(connections = idle.len(), "stopping although these connections are still busy");
            for seat in idle {
                seat.cut();
            }
        }
        tracing::info!(connections = busy.len(), "completions are under way still");
        tokio::select! {
            () = &mut rest => return,
            () = self.stop.overdue() => {}
        }
        tracing::warn!("cutting off the completions that are under way");
        gateway.cut_off();
        if timeout(limits::CUT_OFF, &mut rest).await.is_ok() {
            return;
        }
        for seat in seats.list() {
            seat.cut();
        }
        let _ = timeout(limits::CUT_OFF, gateway.finish()).await;
    }
}

#[async_trait]
impl Service for Listeners {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
        let outcome = self.run().await;
        self.stop.done(outcome);
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

    use crate::limits;

    #[test]
    fn systemd_waits_until_everything_has_ended() {
        let unit = include_str!("../../../deploy/systemd/svc-edge@.service");
        let wait = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
        let wait = Duration::from_secs(wait.parse().unwrap());
        let drain = Duration::from_secs(config::Edge::default().drain_seconds.into());
        // Some seconds for a machine that is busy.
        let needed = drain + 2 * limits::CUT_OFF + limits::LAST_WORD + Duration::from_secs(5);
        assert!(needed <= wait, "an edge may take {needed:?} to stop, and systemd kills it after {wait:?}");
    }
}
