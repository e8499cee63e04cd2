//! Stopping: SIGTERM and SIGINT ask for it, and the process ends when the connections have, not after a fixed pause.

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two moments of stopping. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: CancellationToken,
    done: CancellationToken,
}

impl Stop {
    /// Cancelled when somebody asked us to stop.
    pub(super) fn asked(&self) -> CancellationToken {
        self.asked.clone()
    }

    /// Everything is finished: the process may end.
    pub(super) fn done(&self) {
        self.done.cancel();
    }
}

#[async_trait]
impl ShutdownSignalWatch for Stop {
    async fn recv(&self) -> ShutdownSignal {
        tokio::select! {
            () = asked_by(SignalKind::terminate()) => {}
            () = asked_by(SignalKind::interrupt()) => {}
            // The listeners ended by themselves.
            () = self.done.cancelled() => {}
        }
        tracing::info!("stopping");
        self.asked.cancel();
        // Bounded by the listeners: see `limits::DRAIN`.
        self.done.cancelled().await;
        ShutdownSignal::FastShutdown
    }
}

async fn asked_by(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signals) => drop(signals.recv().await),
        Err(error) => {
            tracing::error!(%error, "signals cannot be heard");
            std::future::pending::<()>().await;
        }
    }
}
