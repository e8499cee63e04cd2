//! Reloads the configuration at each SIGHUP and reports the outcome. Start with [`HangupSignals`].

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
};

use crate::one_line;

pub(crate) const RELOADS: &str = "svc_config_reloads_total";

/// The keys that a reload has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReloadedKeys {
    /// Keys whose new values are in use.
    pub changed: Vec<&'static str>,
    /// Keys whose new values take effect at the next start.
    pub waiting: Vec<&'static str>,
}

/// The SIGHUPs of this process, which would otherwise end it.
#[derive(Debug)]
pub struct HangupSignals(Signal);

impl HangupSignals {
    /// Starts listening for SIGHUP.
    pub fn listen() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Calls `reload` at each signal, on a thread that may block, and logs the outcome, while the future is polled. A
    /// panic is logged, and the next signal calls `reload` again.
    pub async fn run(mut self, reload: impl FnMut() -> anyhow::Result<ReloadedKeys> + Send + 'static) {
        let reload = Arc::new(Mutex::new(reload));
        while self.0.recv().await.is_some() {
            let reload = reload.clone();
            let reading = spawn_blocking(move || {
                // After a panic, the next call continues with what it left: each part is replaced as a whole.
                let mut reload = reload.lock().unwrap_or_else(PoisonError::into_inner);
                (*reload)()
            });
            match reading.await {
                Ok(Ok(ReloadedKeys { changed, waiting })) => log_reloaded(&changed, &waiting),
                Ok(Err(error)) => log_refused(&error),
                Err(_) => log_panicked(),
            }
        }
    }
}

/// Reports an accepted configuration: the keys with new values, and those that take effect at the next start.
fn log_reloaded(changed: &[&str], waiting: &[&str]) {
    metrics::counter!(RELOADS, "outcome" => "taken_over").increment(1);
    for key in waiting {
        tracing::warn!("`{key}` takes effect at the next start");
    }
    match changed {
        [] => tracing::info!("the configuration was read again; nothing of it has changed that takes effect now"),
        changed => tracing::info!(changed = changed.join(", "), "the configuration was read again"),
    }
}

/// Reports a rejected configuration, for a reason that would end the program at startup; the old one stays.
fn log_refused(error: &anyhow::Error) {
    metrics::counter!(RELOADS, "outcome" => "refused").increment(1);
    tracing::error!("the configuration was read again and refused, so that nothing has changed: {}", one_line(error));
}

fn log_panicked() {
    metrics::counter!(RELOADS, "outcome" => "refused").increment(1);
    tracing::error!(
        "reading the configuration again failed by a bug of this program (it panicked), which may have taken over a part of it; it goes \
         on, and the next SIGHUP reads the configuration again"
    );
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn a_panic_does_not_end_it() {
        let calls = Arc::<AtomicUsize>::default();
        let hangups = HangupSignals::listen().unwrap();
        let counted = calls.clone();
        let running = tokio::spawn(hangups.run(move || {
            assert!(counted.fetch_add(1, Ordering::SeqCst) > 0, "the first one panics");
            Ok(ReloadedKeys::default())
        }));
        for call in 1..=2 {
            let sent = Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status().unwrap();
            assert!(sent.success());
            while calls.load(Ordering::SeqCst) < call {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert!(!running.is_finished());
    }
}
