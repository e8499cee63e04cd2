//! Logs in the format of all programs, metrics for Prometheus, and health for load balancers.
//!
//! Each program has its metrics in its own `metrics.rs`. Start with [`start`] and [`metrics`]; [`one_line`] formats
//! errors.

pub mod health;
pub mod metrics;
mod outage;
pub mod process;
pub mod reload;
pub mod text;

pub use outage::{OutageLine, OutageLog};

use tracing_subscriber::{EnvFilter, fmt};

/// The version and commit of a program: the constants that the crate `buildinfo` sets for its package.
#[derive(Debug, Clone, Copy)]
pub struct BuildInfo {
    /// The package's version.
    pub version: &'static str,
    /// The commit.
    pub commit: &'static str,
}

/// The filter unless `RUST_LOG` is set. It omits Pingora's messages about connections that we closed ourselves
/// (failures are logged where they are answered), and Postgres's notices about objects that already exist.
const USUAL: &str =
    "info,pingora_core=warn,pingora_core::connectors=off,pingora_proxy=error,sqlx::postgres::notice=warn";

/// Starts logging to standard error: readable on a terminal, JSON otherwise or with `SVC_LOG_FORMAT=json`. `RUST_LOG`
/// sets the filter; release builds contain nothing below `debug`.
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

/// Formats an error and its causes in one line, each once: the text of many errors ends with that of their cause.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.ends_with(&cause) {
            said.push_str(": ");
            said.push_str(&cause);
        }
    }
    said
}

/// Formats a number with its noun, such as `1 pack` and `2 packs`.
pub fn format_count(number: impl TryInto<u64>, one: &str, more: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {}", if number == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context as _;

    use super::*;

    #[derive(Debug)]
    struct Unreadable(io::Error);

    impl std::fmt::Display for Unreadable {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "cannot read the key: {}", self.0)
        }
    }

    impl std::error::Error for Unreadable {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let unreadable = || Unreadable(io::Error::other("no such file"));
        assert_eq!(one_line(&unreadable().into()), "cannot read the key: no such file");
        let failed = Err::<(), _>(unreadable()).context("nothing was started").unwrap_err();
        assert_eq!(one_line(&failed), "nothing was started: cannot read the key: no such file");
    }
}
