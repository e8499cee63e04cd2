//! Logs, as both programs write them, and metrics, as Prometheus reads them.
//!
//! Each program defines its metrics in a file `metrics.rs` of its own. Start with [`start`] and [`metrics`].

pub mod metrics;

use tracing_subscriber::{EnvFilter, fmt};

/// What is seen unless `RUST_LOG` says otherwise. Left out: what Pingora says of connections that we closed ourselves
/// (what fails is said where it is answered), and Postgres's notices about what is there already.
const USUAL: &str =
    "info,pingora_core=warn,pingora_core::connectors=off,pingora_proxy=error,sqlx::postgres::notice=warn";

/// Starts logging to standard error: readable on a terminal, JSON otherwise or with `SVC_LOG_FORMAT=json`.
/// `RUST_LOG` chooses what is seen.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(USUAL));
    let logs = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let json = match std::env::var("SVC_LOG_FORMAT").as_deref() {
        Ok("json") => true,
        Ok("text") => false,
        _ => !std::io::IsTerminal::is_terminal(&std::io::stderr()),
    };
    if json {
        logs.json().flatten_event(true).init();
    } else {
        logs.init();
    }
}
