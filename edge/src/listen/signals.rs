//! Stopping: SIGTERM, SIGINT, or a new edge that has taken over ask for it, and the process ends when the connections have, not
//! after a fixed pause.

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

use crate::limits;

/// The moments of stopping. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: CancellationToken,
    /// The time when what is still under way is cut off.
    deadline: watch::Sender<Option<Instant>>,
    /// Cancelled when a new edge has taken over.
    handed_over: CancellationToken,
    done: CancellationToken,
    failure: Arc<OnceLock<io::Error>>,
    periods: watch::Sender<Periods>,
    health: Health,
}

/// The configured times of a stop. None are left at a second signal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Periods {
    /// The time for which connections are still accepted after the signal, so that a balancer stops sending them.
    notice: Duration,
    /// The time from then to the deadline.
    drain: Duration,
}

impl Periods {
    /// The times in `config`.
    pub fn of(config: &config::Edge) -> Self {
        let [notice, drain] =
            [config.drain_notice_seconds, config.drain_seconds].map(u64::from).map(Duration::from_secs);
        Self { notice, drain }
    }
}

impl Stop {
    /// A stop that, once asked for, tells `health` immediately and the listeners after a notice, and then gives a time to what is under
    /// way, by `periods`.
    pub fn new(periods: Periods, health: Health) -> Self {
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

    /// Replaces the times, for a signal that comes from now on.
    pub fn use_periods(&self, periods: Periods) {
        self.periods.send_replace(periods);
    }

    /// Whether the edge should get requests.
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    /// Cancelled when somebody asked us to stop.
    pub(super) fn asked(&self) -> CancellationToken {
        self.asked.clone()
    }

    /// Done when what is still under way has to be cut off.
    pub(super) async fn overdue(&self) {
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
                // The sender is in `self`: it is not gone.
                _ = deadline.changed() => {}
            }
        }
    }

    /// Everything is finished: the process may end.
    pub(super) fn done(&self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            let _ = self.failure.set(io::Error::new(error.kind(), format!("cannot listen: {error}")));
        }
        self.done.cancel();
    }

    /// Ends the edge for this reason; what is under way gets a few seconds.
    pub fn give_up(&self, reason: impl std::fmt::Display) {
        let _ = self.failure.set(io::Error::other(reason.to_string()));
        self.ask(limits::DRAIN);
    }

    /// Why the edge ends by itself.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    /// A new edge has taken over: nobody waits for this one to end.
    pub(super) fn hand_over(&self) {
        tracing::info!("a new edge has taken over; this one ends when its connections have");
        self.handed_over.cancel();
        self.ask(limits::UPGRADE_DRAIN);
    }

    /// Whether a new edge has taken over.
    pub(super) fn is_handed_over(&self) -> bool {
        self.handed_over.is_cancelled()
    }

    /// Asks to stop, and gives `patience` to what is under way, or what is left of an earlier deadline if that is less.
    fn ask(&self, patience: Duration) {
        let at = Instant::now() + patience;
        self.deadline.send_modify(|deadline| *deadline = Some(deadline.map_or(at, |earlier| earlier.min(at))));
        self.asked.cancel();
    }
}

#[async_trait]
impl ShutdownSignalWatch for Stop {
    async fn recv(&self) -> ShutdownSignal {
        let (mut terminate, mut interrupt) =
            (Signals::of(SignalKind::terminate()), Signals::of(SignalKind::interrupt()));
        let mut signal = async || {
            tokio::select! {
                () = terminate.next() => {}
                () = interrupt.next() => {}
            }
        };
        let asked = async {
            signal().await;
            self.health.drain();
            let Periods { notice, mut drain } = *self.periods.borrow();
            if !notice.is_zero() {
                tracing::info!(seconds = notice.as_secs(), "draining: accepting connections until balancers know");
                if timeout(notice, signal()).await.is_ok() {
                    drain = Duration::ZERO;
                }
            }
            loop {
                tracing::info!(drain_seconds = drain.as_secs(), "stopping");
                self.ask(drain);
                // Whoever asks a second time does not want to wait.
                drain = Duration::ZERO;
                signal().await;
            }
        };
        // Bounded by the listeners: see `Stop::overdue`.
        tokio::select! {
            () = asked => {}
            () = self.done.cancelled() => {}
        }
        ShutdownSignal::FastShutdown
    }
}

/// The signals of one kind; none come where the system refuses to say so.
pub(crate) struct Signals(Option<Signal>);

impl Signals {
    pub(crate) fn of(kind: SignalKind) -> Self {
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
        let (stop, start) = (Stop::new(Periods::default(), Health::default()), Instant::now());
        let (asking, asked) = (stop.clone(), stop.asked());
        let ask = async move {
            asking.ask(Duration::from_mins(10));
            assert!(asked.is_cancelled());
            tokio::time::sleep(Duration::from_secs(5)).await;
            asking.ask(Duration::from_secs(50));
            asking.ask(Duration::from_mins(1));
        };
        tokio::join!(stop.overdue(), ask);
        assert_eq!(start.elapsed(), Duration::from_secs(55));
    }
}
