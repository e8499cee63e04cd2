//! Stand-ins for servers on the internet that the platform calls.

pub mod authority;
pub mod codehost;
pub mod listener;
pub mod mollie;
pub mod provider;
pub mod resolver;
pub mod vies;

use std::time::Duration;

/// The time that a server, or a reader of its answer, takes over something, where a test is about one that takes long.
/// Where a test needs an order of events, the stub waits for the test to say that it may go on.
#[expect(clippy::disallowed_methods, reason = "the one pause that is part of what is tested")]
pub async fn latency(time: Duration) {
    tokio::time::sleep(time).await;
}
