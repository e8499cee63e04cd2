//! Shutdown, by SIGTERM, SIGINT, or a new edge that has taken over. The process ends with its last connection.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use telemetry::health::Health;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

/// The progress of a shutdown. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ShutdownController {
    asked: CancellationToken,
    deadline: watch::Sender<Option<Instant>>,
    handed_over: CancellationToken,
    done: CancellationToken,
    failure: Arc<OnceLock<io::Error>>,
    periods: watch::Sender<ShutdownPeriods>,
    health: Health,
}

/// The configured periods of a shutdown. A second signal skips them.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShutdownPeriods {
    /// The time for which connections are still accepted after the signal, so that a balancer stops sending them.
    notice: Duration,
    /// The time from then to the deadline.
    drain: Duration,
}

impl ShutdownPeriods {
    /// Reads the periods from `config`.
    pub fn from_config(config: &config::Edge) -> Self {
        let [notice, drain] =
            [config.drain_notice_seconds, config.drain_seconds].map(u64::from).map(Duration::from_secs);
        Self { notice, drain }
    }
}

impl ShutdownController {
    /// Creates a stop. Once requested, it notifies `health` immediately, and the listeners after the notice period.
    pub fn new(periods: ShutdownPeriods, health: Health) -> Self {
        let (asked, handed_over, done) = Default::default();
        Self {
            asked,
            deadline: watch::Sender::new(None),
            handed_over,
            done,
            failure: Arc::default(),
            periods: watch::Sender::new(periods),
            health,
        }
    }

    /// Replaces the periods, for future signals.
    pub fn use_periods(&self, periods: ShutdownPeriods) {
        self.periods.send_replace(periods);
    }

    /// Returns the health, which says whether the edge should receive requests.
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// Returns a token that is cancelled when a stop is requested.
    pub(super) fn stop_token(&self) -> CancellationToken {
        self.asked.clone()
    }

    /// Waits until remaining requests have to be aborted.
    pub(super) async fn deadline_passed(&self) {
        let mut deadline = self.deadline.subscribe();
        loop {
            let at = *deadline.borrow_and_update();
            let passed = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = passed => return,
                _ = deadline.changed() => {}
            }
        }
    }

    /// Marks the shutdown as finished: the process may end.
    pub(super) fn finish(&self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            let _ = self.failure.set(io::Error::new(error.kind(), format!("cannot listen: {error}")));
        }
        self.done.cancel();
    }

    /// Stops the edge for this reason; requests in flight have a few seconds.
    pub fn give_up(&self, reason: impl std::fmt::Display) {
        let _ = self.failure.set(io::Error::other(reason.to_string()));
        self.request_stop(limits::DRAIN);
    }

    /// Returns why the edge stops by itself.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    /// Starts the shutdown after a new edge has taken over, so that this one need not end soon.
    pub(super) fn hand_over(&self) {
        tracing::info!("a new edge has taken over; this one ends when its connections have");
        self.handed_over.cancel();
        self.request_stop(limits::UPGRADE_DRAIN);
    }

    /// Returns whether a new edge has taken over.
    pub(super) fn is_handed_over(&self) -> bool {
        self.handed_over.is_cancelled()
    }

    /// Requests a stop, with a deadline after `patience`, or an earlier one that was already set.
    fn request_stop(&self, patience: Duration) {
        let at = Instant::now() + patience;
        self.deadline.send_modify(|deadline| *deadline = Some(deadline.map_or(at, |earlier| earlier.min(at))));
        self.asked.cancel();
    }
}

#[async_trait]
impl ShutdownSignalWatch for ShutdownController {
    async fn recv(&self) -> ShutdownSignal {
        let (mut terminate, mut interrupt) =
            (SignalStream::for_kind(SignalKind::terminate()), SignalStream::for_kind(SignalKind::interrupt()));
        let mut signal = async || {
            tokio::select! {
                () = terminate.next() => {}
                () = interrupt.next() => {}
            }
        };
        let asked = async {
            signal().await;
            self.health.drain();
            let ShutdownPeriods { notice, mut drain } = *self.periods.borrow();
            if !notice.is_zero() {
                tracing::info!(seconds = notice.as_secs(), "draining: accepting connections until balancers know");
                if timeout(notice, signal()).await.is_ok() {
                    drain = Duration::ZERO;
                }
            }
            loop {
                tracing::info!(drain_seconds = drain.as_secs(), "stopping");
                self.request_stop(drain);
                // A second signal skips the drain.
                drain = Duration::ZERO;
                signal().await;
            }
        };
        // The listeners limit this wait: see `ShutdownController::deadline_passed`.
        tokio::select! {
            () = asked => {}
            () = self.done.cancelled() => {}
        }
        ShutdownSignal::FastShutdown
    }
}

/// The signals of one kind; never ready if the handler could not be installed.
pub(crate) struct SignalStream(Option<Signal>);

impl SignalStream {
    pub(crate) fn for_kind(kind: SignalKind) -> Self {
        Self(signal(kind).inspect_err(|error| tracing::error!(%error, "signals cannot be heard")).ok())
    }

    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(signals) => drop(signals.recv().await),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_comes_earlier_and_never_later() {
        let (stop, start) = (ShutdownController::new(ShutdownPeriods::default(), Health::default()), Instant::now());
        let (asking, asked) = (stop.clone(), stop.stop_token());
        let ask = async move {
            asking.request_stop(Duration::from_mins(10));
            assert!(asked.is_cancelled());
            tokio::time::sleep(Duration::from_secs(5)).await;
            asking.request_stop(Duration::from_secs(50));
            asking.request_stop(Duration::from_mins(1));
        };
        tokio::join!(stop.deadline_passed(), ask);
        assert_eq!(start.elapsed(), Duration::from_secs(55));
    }
}
