//! Bounds of the gateway's traces. What does not fit is dropped, and counted.

use std::time::Duration;

/// Spans that wait to be sent.
pub(crate) const SPANS_QUEUE: usize = 4_096;
/// Spans that are sent together.
pub(crate) const SPANS_BATCH: usize = 512;
/// Longest wait of a span for others to be sent with it.
pub(crate) const SPANS_HOLD: Duration = Duration::from_secs(5);
/// Times that a batch is sent: a collector that is away for longer loses it.
pub(crate) const SPANS_TRIES: u32 = 4;
/// Pause before the second time; each further one is twice as long.
pub(crate) const SPANS_PAUSE: Duration = Duration::from_secs(1);
/// Longest wait for a collector's answer.
pub(crate) const COLLECTOR_WAIT: Duration = Duration::from_secs(10);
/// Time for the last spans to be sent when the edge stops.
pub(crate) const LAST_SPANS_WAIT: Duration = Duration::from_secs(2);
/// Reasons for which choices end that a span names.
pub(crate) const FINISH_REASONS: usize = 16;
