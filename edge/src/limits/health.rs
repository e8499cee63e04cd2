//! Bounds of looking after this edge's own health.

use std::time::Duration;

/// Interval at which it is looked whether what an edge must have had before it is ready has been there.
pub(crate) const READY_EVERY: Duration = Duration::from_millis(250);
/// Interval at which Postgres and Redis are asked for a sign of life.
pub(crate) const DEPENDENCY_EVERY: Duration = Duration::from_secs(2);
/// Longest wait for that sign.
pub(crate) const DEPENDENCY_WAIT: Duration = Duration::from_secs(1);
/// Interval at which a store that has answered once is asked again: in a bucket each question costs something.
pub(crate) const STORE_PROBE_EVERY: Duration = Duration::from_secs(15);
/// Longest wait for the store.
pub(crate) const STORE_PROBE_WAIT: Duration = Duration::from_secs(5);
/// Interval at which the disks of the spool and the store are looked at.
pub(crate) const DISK_EVERY: Duration = Duration::from_secs(15);
/// Interval at which an edge that must still have its certificate read asks for it.
pub(crate) const CERTIFICATE_EVERY: Duration = Duration::from_secs(1);
