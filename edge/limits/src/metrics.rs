//! Limits of metrics.

use std::time::Duration;

/// Interval at which memory use is reported.
pub const MEMORY_REPORT_EVERY: Duration = Duration::from_secs(2);
