//! Bounds of what is reported.

use std::time::Duration;

/// Interval at which it is reported what memory is used for.
pub(crate) const MEMORY_REPORT_EVERY: Duration = Duration::from_secs(2);
