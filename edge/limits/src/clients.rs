//! Limits for counting clients.

use std::time::Duration;

/// Clients whose requests are counted.
pub const TALKERS: usize = 32_768;
/// Interval at which clients' use is sampled.
pub const TALKERS_TICK: Duration = Duration::from_secs(10);
/// Samples kept of each client: one minute's.
pub const TALKERS_TICKS: usize = 6;
/// Clients named in a response.
pub const TOP_CLIENTS: usize = 100;
/// Pause between two responses.
pub const TOP_PAUSE: Duration = Duration::from_millis(100);
/// Pause before resubscribing to queries.
pub const TOP_RETRY: Duration = Duration::from_secs(2);
