//! Stand-ins for servers on the internet that the platform calls.

pub mod authority;
pub mod codehost;
pub mod listener;
pub mod mollie;
pub mod provider;
pub mod resolver;
pub mod vies;

use std::time::Duration;

/// Sleeps for the latency of a slow server, or of a slow reader of its response. Where a test needs an order of events,
/// the stub waits for the test instead.
#[expect(clippy::disallowed_methods, reason = "the one pause that is part of what is tested")]
pub async fn latency(time: Duration) {
    tokio::time::sleep(time).await;
}
