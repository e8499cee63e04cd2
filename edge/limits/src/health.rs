//! Limits of health checks.

use std::time::Duration;

/// Interval at which an edge checks whether its requirements for being ready have been met.
pub const READY_EVERY: Duration = Duration::from_millis(250);
/// Interval at which Postgres and Redis are probed.
pub const DEPENDENCY_EVERY: Duration = Duration::from_secs(2);
/// Maximum wait for such a probe.
pub const DEPENDENCY_WAIT: Duration = Duration::from_secs(1);
/// Interval at which a store that has answered once is probed again: in a bucket each probe costs money.
pub const STORE_PROBE_EVERY: Duration = Duration::from_secs(15);
/// Maximum wait for the store.
pub const STORE_PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the disks of the spool and the store are checked.
pub const DISK_EVERY: Duration = Duration::from_secs(15);
/// Interval at which an edge retries to read its certificate until it has it.
pub const CERTIFICATE_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the age of the schema is read again while Postgres is unreachable at the start.
pub const SCHEMA_CHECK_EVERY: Duration = Duration::from_secs(5);
