//! Limits of collected traffic that waits for Postgres, in memory and on disk.

use std::time::Duration;

/// Approximate bytes of waiting batches kept in memory although the journal has them. Others are read back.
pub const QUEUED_BYTES: usize = 8 * MIB;
/// Approximate bytes of waiting batches in memory beyond which a batch that the journal does not accept is dropped.
pub const UNJOURNALED_BYTES: usize = 32 * MIB;
/// Bytes of the journal on disk: more than half an hour without Postgres at 10,000 requests per second on three edges.
pub const TRAFFIC_JOURNAL_BYTES: u64 = 1024 * MIB as u64;
/// Bytes of a segment of the journal. One at a time is read back into memory, and each holds a file open.
pub const TRAFFIC_SEGMENT: u64 = 8 * MIB as u64;
/// Bytes of a segment that Postgres has, after which the next starts. A dead edge's last segment is sent once more.
pub const TRAFFIC_SEGMENT_RELEASED: u64 = 128 * 1024;
/// Attempts to read a segment back, [`TRAFFIC_RETRY`](super::TRAFFIC_RETRY) apart, before its batches are dropped.
pub const TRAFFIC_READ_TRIES: usize = 10;
/// Projects in one statement that sends several batches of the journal together.
pub const TRAFFIC_SENT_PROJECTS: usize = 2_000;
/// Keys and registers of such a statement.
pub const TRAFFIC_SENT_KEYS: usize = 10_000;
/// Approximate bytes of waiting batches in memory beyond which they are sent although they could be merged for longer.
pub const TRAFFIC_HELD_BYTES: usize = QUEUED_BYTES / 2;
/// Pending requests for traffic. Further ones are not answered.
pub const TRAFFIC_REQUESTS: usize = 64;
/// Pause between two requests for traffic, each of which ends the merging.
pub const TRAFFIC_REQUEST_PAUSE: Duration = Duration::from_millis(500);
/// Pause before resubscribing to requests for traffic.
pub const TRAFFIC_REQUEST_RETRY: Duration = Duration::from_secs(2);
/// Age beyond which a batch is dropped. Postgres does not count anything older where it belongs, and a day later it
/// forgets which batches of an edge it has received.
pub const TRAFFIC_SENT_WITHIN: Duration = Duration::from_hours(6 * 24);
/// Interval at which the journals of dead edges are searched for.
pub const TRAFFIC_ADOPT_EVERY: Duration = Duration::from_secs(5);
/// Time within which the last statements of a dead edge have reached Postgres.
pub const TRAFFIC_ARRIVES_WITHIN: Duration = Duration::from_secs(2);
/// Time within which Postgres has completed them: its own statement timeout, and some seconds more.
pub const TRAFFIC_ENDED_WITHIN: Duration = Duration::from_secs(20);
/// Interval at which their completion is checked.
pub const TRAFFIC_ENDED_LOOK: Duration = Duration::from_millis(500);
/// Interval at which the country file is checked for replacement.
pub const COUNTRIES_EVERY: Duration = Duration::from_secs(10);

const MIB: usize = 1024 * 1024;
