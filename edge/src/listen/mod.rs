//! Sockets: accepting, TLS, HTTP, and the orderly end of it all.
//!
//! [`Listeners`] is a Pingora service. What a request means is not known here: that is [`crate::front`]. Start with
//! [`Listeners::run`].

mod connections;
mod http;
mod pace;
mod signals;
mod tcp;
mod tls;

use std::{io, sync::Arc};

use async_trait::async_trait;
use domain::networks::Networks;
use pingora::{
    server::{ListenFds, ShutdownWatch},
    services::Service,
};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::tcp::{Acceptor, Seats};
pub use self::{connections::ConnectionBounds, signals::Stop, tcp::Sockets, tls::Tls};
use crate::{clients::Talkers, front::Front, limits};

/// Work beside the connections, for as long as there are any.
pub type Background = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Both listeners, and everything that runs while they do.
pub struct Listeners {
    sockets: Option<Sockets>,
    front: Arc<Front>,
    tls: Arc<Tls>,
    /// In a lock only because a service is shared: futures are not.
    background: Mutex<Vec<Background>>,
    /// The work that the first connection waits for.
    accept_after: Mutex<Option<Background>>,
    /// Cancelled when no connection is left.
    background_stop: CancellationToken,
    stop: Stop,
    threads: usize,
    bounds: ConnectionBounds,
    trusted: Networks,
    talkers: Arc<Talkers>,
}

impl Listeners {
    /// Listeners on `sockets` before `front`, with as many connections as `bounds` allows; those of `trusted` proxies count as
    /// no client's. What the others take is counted in `talkers`.
    #[expect(clippy::too_many_arguments, reason = "the parts of the program, each named where it is made")]
    pub fn new(
        sockets: Sockets,
        front: Arc<Front>,
        tls: Tls,
        threads: usize,
        stop: Stop,
        bounds: ConnectionBounds,
        trusted: Networks,
        talkers: Arc<Talkers>,
    ) -> Self {
        let background_stop = CancellationToken::new();
        Self {
            sockets: Some(sockets),
            front,
            tls: Arc::new(tls),
            background: Mutex::default(),
            accept_after: Mutex::default(),
            background_stop,
            stop,
            threads,
            bounds,
            trusted,
            talkers,
        }
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
        let (https, http) = (sockets.https.listen(limits::ACCEPT_QUEUE)?, sockets.http.listen(limits::ACCEPT_QUEUE)?);
        tracing::info!(https = %https.local_addr()?, http = %http.local_addr()?, "listening");

        let connections = TaskTracker::new();
        let seats = Seats::new(self.bounds.seats(), self.trusted.clone(), self.talkers.clone());
        let secure = Acceptor {
            front: self.front.clone(),
            tls: Some(self.tls.clone()),
            seats: seats.clone(),
            connections: connections.clone(),
            stop: self.stop.asked(),
        };
        let plain = Acceptor { tls: None, ..secure.clone() };
        let (bounds, stop) = (self.bounds, self.background_stop.clone());
        background.spawn(async move {
            stop.run_until_cancelled_owned(tcp::shed(seats, bounds)).await;
        });
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
