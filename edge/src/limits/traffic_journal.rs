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
/// Projects of one statement that sends several batches of the journal together.
pub(crate) const TRAFFIC_SENT_PROJECTS: usize = 2_000;
/// Keys and registers of such a statement.
pub(crate) const TRAFFIC_SENT_KEYS: usize = 10_000;
/// Bytes of waiting batches in memory, about, beyond which they are sent although they could be added up for longer.
pub(crate) const TRAFFIC_HELD_BYTES: usize = QUEUED_BYTES / 2;
/// Requests for traffic that wait for their answer. Those beyond it get none.
pub(crate) const TRAFFIC_REQUESTS: usize = 64;
/// Pause between two requests for traffic, each of which ends the adding up.
pub(crate) const TRAFFIC_REQUEST_PAUSE: Duration = Duration::from_millis(500);
/// Pause before requests for traffic are listened for again.
pub(crate) const TRAFFIC_REQUEST_RETRY: Duration = Duration::from_secs(2);
/// Age of a batch beyond which it is dropped. Postgres counts nothing older where it belongs, and a day later it forgets which
/// batches of an edge it has had.
pub(crate) const TRAFFIC_SENT_WITHIN: Duration = Duration::from_hours(6 * 24);
/// Interval at which the journals of dead edges are looked for.
pub(crate) const TRAFFIC_ADOPT_EVERY: Duration = Duration::from_secs(5);
/// Time after which an edge's last statements have reached Postgres, once the edge has died.
pub(crate) const TRAFFIC_ARRIVES_WITHIN: Duration = Duration::from_secs(2);
/// Time after which Postgres has ended them: its own bound for a statement, and some seconds more.
pub(crate) const TRAFFIC_ENDED_WITHIN: Duration = Duration::from_secs(20);
/// Interval at which it is looked whether it has.
pub(crate) const TRAFFIC_ENDED_LOOK: Duration = Duration::from_millis(500);
/// Interval at which it is looked whether the file of countries is another one.
pub(crate) const COUNTRIES_EVERY: Duration = Duration::from_secs(10);

const MIB: usize = 1024 * 1024;
