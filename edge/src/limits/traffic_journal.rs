//! Bounds of traffic that was collected and waits for Postgres, in memory and on disk.

use std::time::Duration;

/// Bytes of waiting batches that stay in memory although the journal has them, about. The others are read back from it.
pub(crate) const QUEUED_BYTES: usize = 8 * MIB;
/// Bytes of waiting batches in memory, about, beyond which one that the journal does not take is dropped.
pub(crate) const UNJOURNALED_BYTES: usize = 32 * MIB;
/// Bytes of the journal on disk: more than half an hour without Postgres at 10,000 requests a second on three edges.
pub(crate) const TRAFFIC_JOURNAL_BYTES: u64 = 1024 * MIB as u64;
/// Bytes of a segment of the journal. One at a time is read back into memory, and each holds a file open.
pub(crate) const TRAFFIC_SEGMENT: u64 = 8 * MIB as u64;
/// Bytes of a segment of which Postgres has everything, after which the next one begins. Whoever takes over from a dead edge
/// sends its last segment once more.
pub(crate) const TRAFFIC_SEGMENT_RELEASED: u64 = 128 * 1024;
/// Attempts to read a segment back, a pause of [`TRAFFIC_RETRY`](super::TRAFFIC_RETRY) between them, before its batches are
/// given up.
pub(crate) const TRAFFIC_READ_TRIES: usize = 10;
/// Age of a batch beyond which it is dropped. Postgres counts nothing older where it belongs, and a day later it forgets which
/// batches of an edge it has had.
pub(crate) const TRAFFIC_SENT_WITHIN: Duration = Duration::from_hours(6 * 24);
/// Interval at which the journals of dead edges are looked for.
pub(crate) const TRAFFIC_ADOPT_EVERY: Duration = Duration::from_secs(5);
/// Interval at which it is looked whether the file of countries is another one.
pub(crate) const COUNTRIES_EVERY: Duration = Duration::from_secs(10);

const MIB: usize = 1024 * 1024;
