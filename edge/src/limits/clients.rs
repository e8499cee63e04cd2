//! Bounds of what is counted of clients.

use std::time::Duration;

/// Clients whose requests are counted.
pub(crate) const TALKERS: usize = 32_768;
/// Interval at which what clients took is noted.
pub(crate) const TALKERS_TICK: Duration = Duration::from_secs(10);
/// Notes that are kept of each client: those of a minute.
pub(crate) const TALKERS_TICKS: usize = 6;
/// Clients that are named in an answer.
pub(crate) const TOP_CLIENTS: usize = 100;
/// Pause between two answers.
pub(crate) const TOP_PAUSE: Duration = Duration::from_millis(100);
/// Pause before questions are listened for again.
pub(crate) const TOP_RETRY: Duration = Duration::from_secs(2);
