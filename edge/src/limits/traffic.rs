//! Bounds of what is counted of traffic. All of it together takes less than 200 MB, whatever visitors send.

use std::time::Duration;

/// Bytes of traffic that is being counted, about: what all threads count between two collections.
pub(crate) const COUNTED_BYTES: usize = 48 * MIB;
/// Bytes of traffic that waits for Postgres, about.
pub(crate) const BACKLOG_BYTES: usize = 64 * MIB;
/// The part of both that distinct keys may take. The rest is for the sums of projects, which stay exact.
pub(crate) const KEYS_PERCENT_OF_TRAFFIC: usize = 75;
/// The part of both that the keys of one project may take, in percent.
pub(crate) const PROJECT_KEYS_PERCENT: usize = 25;
/// Most threads that count apart from each other; more share.
pub(crate) const TRAFFIC_SHARDS: usize = 64;
/// Distinct paths of a project in one collection, and in an hour that waits.
pub(crate) const COUNTED_PATHS: usize = 50_000;
/// Distinct paths of 404s of a project in one collection, and in an hour that waits.
pub(crate) const COUNTED_MISSING_PATHS: usize = 1_000;
/// Distinct hostnames of a project in one collection, and in an hour that waits.
pub(crate) const COUNTED_HOSTNAMES: usize = 1_000;
/// Bytes of a path that are counted; what is longer is cut.
pub(crate) const COUNTED_PATH_BYTES: usize = 256;
/// Bytes of an answer that is still being sent, after which they are counted.
pub(crate) const COUNTED_PART_BYTES: u64 = 256 * 1024;
/// Interval at which what was counted is collected. A killed edge loses no more than this and what is being written.
pub(crate) const COLLECT_EVERY: Duration = Duration::from_secs(2);
/// Keys of one batch for Postgres.
pub(crate) const TRAFFIC_BATCH_KEYS: usize = 2_000;
/// Hours of projects in one batch for Postgres.
pub(crate) const TRAFFIC_BATCH_HOURS: usize = 500;
/// Longest time for one batch.
pub(crate) const TRAFFIC_WAIT: Duration = Duration::from_secs(10);
/// Pause after a batch that failed.
pub(crate) const TRAFFIC_RETRY: Duration = Duration::from_secs(1);

const MIB: usize = 1024 * 1024;
