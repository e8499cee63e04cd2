//! Limits of the gateway's traces. Spans that exceed them are dropped, and counted.

use std::time::Duration;

/// Spans that wait to be sent.
pub const SPANS_QUEUE: usize = 4_096;
/// Spans that are sent together.
pub const SPANS_BATCH: usize = 512;
/// Maximum wait of a span for others to be sent with it.
pub const SPANS_HOLD: Duration = Duration::from_secs(5);
/// Attempts to send a batch: a collector that is down for longer loses it.
pub const SPANS_TRIES: u32 = 4;
/// Pause before the second attempt; each further one is twice as long.
pub const SPANS_PAUSE: Duration = Duration::from_secs(1);
/// Maximum wait for a collector's response.
pub const COLLECTOR_WAIT: Duration = Duration::from_secs(10);
/// Time for the last spans to be sent when the edge stops.
pub const LAST_SPANS_WAIT: Duration = Duration::from_secs(2);
/// Finish reasons that a span names.
pub const FINISH_REASONS: usize = 16;
