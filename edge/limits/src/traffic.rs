//! Limits of traffic statistics. Together they take less than 200 MB, whatever visitors send: [`COUNTED_BYTES`], the
//! totals of [`COUNTED_PROJECTS`] in each shard, some 50 MB of what visitors did and which of them were sent,
//! [`HOUR_KEYS`], and what waits for Postgres.

use std::time::Duration;

/// Approximate bytes of distinct keys counted between two collections, by all threads together.
pub const COUNTED_BYTES: usize = 36 * MIB;
/// Percentage of [`COUNTED_BYTES`] for the keys of one person, over all their projects and organizations.
pub const PAYER_KEYS_PERCENT: usize = 33;
/// Projects whose totals are counted between two collections, per shard: every thread may encounter every project.
pub const COUNTED_PROJECTS: usize = 12_000;
/// [`COUNTED_PROJECTS`] of one person, over all their organizations.
pub const PAYER_PROJECTS: usize = 4_000;
/// Maximum of shards, each for the threads that count in it. A response holds its shard for well under a microsecond,
/// so some threads can share one; each has room for the totals of all projects.
pub const TRAFFIC_SHARDS: usize = 4;
/// Distinct paths of a project in one hour. Postgres accepts no more from all edges together: `fold_traffic`. This also
/// holds for the limits of errors, views and persons below.
pub const COUNTED_PATHS: usize = 2_000;
/// [`COUNTED_PATHS`] that name no file, when a page or rule answers any path: half, so that the site's own fit.
pub const COUNTED_STAND_INS: usize = COUNTED_PATHS / 2;
/// Distinct errors (status, path and referrer) of a project in one hour.
pub const COUNTED_ERRORS: usize = 1_000;
/// Distinct views (page, referrer, country and hostname) of a project in one hour.
pub const COUNTED_VIEWS: usize = 4_000;
/// Distinct paths of all one person's projects in one hour: projects are free to create, and visitors make up paths.
pub const PAYER_PATHS: usize = 10_000;
/// [`PAYER_PATHS`] that name no file.
pub const PAYER_STAND_INS: usize = PAYER_PATHS / 2;
/// Distinct errors of all projects of one person in one hour.
pub const PAYER_ERRORS: usize = 5_000;
/// Distinct views of all projects of one person in one hour.
pub const PAYER_VIEWS: usize = 10_000;
/// Keys known to have been sent within the hour, at some 20 bytes each. Others are sent; Postgres has its own limits.
pub const HOUR_KEYS: usize = 1_000_000;
/// Keys of [`HOUR_KEYS`] whose room a project visited within the hour takes.
pub const HOUR_KEYS_OF_PROJECT: usize = 8;
/// Visitor registers of a project in one collection beyond which equal ones are merged, and their maximum.
pub const COUNTED_REGISTERS: usize = 32_768;
/// Bytes of a referrer's host: the maximum of a hostname.
pub const COUNTED_REFERRER_BYTES: usize = 253;
/// Distinct hostnames of a project in one collection.
pub const COUNTED_HOSTNAMES: usize = 1_000;
/// Bytes of a counted path; a longer one is truncated.
pub const COUNTED_PATH_BYTES: usize = 256;
/// Bytes of a response in progress after which they are counted.
pub const COUNTED_PART_BYTES: u64 = 256 * 1024;
/// Interval at which counts are collected. A killed edge loses no more than this.
pub const COLLECT_EVERY: Duration = Duration::from_secs(2);
/// Keys of one batch for Postgres.
pub const TRAFFIC_BATCH_KEYS: usize = 2_000;
/// Project hours in one batch for Postgres.
pub const TRAFFIC_BATCH_HOURS: usize = 500;
/// Maximum time for one batch.
pub const TRAFFIC_WAIT: Duration = Duration::from_secs(10);
/// Pause after a batch that failed.
pub const TRAFFIC_RETRY: Duration = Duration::from_secs(1);

/// Stripes of the visitor table, so that two threads hardly ever contend for the same one.
pub const VISITOR_STRIPES: usize = 256;
/// Visitors whose classification is cached; the same number again of those not seen since.
pub const KNOWN_VISITORS: usize = 256 * 1024;
/// Visitors who have loaded a page and wait to be classified. Beyond it their header fields decide.
pub const WAITING_VISITORS: usize = 128 * 1024;
/// Approximate bytes of visitors waiting to be classified.
pub const WAITING_BYTES: usize = 16 * MIB;
/// Pages that a visitor may load without any subresource before it is classified.
pub const WAITING_PAGES: usize = 4;
/// Time within which a browser loads a subresource of a page that it shows.
pub const PARTS_WITHIN: Duration = Duration::from_secs(10);
/// Visitors that are counted together once they are classified.
pub const SETTLED_BATCH: usize = 128;
/// Bytes of the daily salt for visitors.
pub const SALT_BYTES: usize = 32;
/// Time before midnight at which tomorrow's salt exists; edges fetch it at different times.
pub const SALT_AHEAD: Duration = Duration::from_mins(10);
/// Interval at which it is checked that the salt is today's.
pub const SALT_CHECK_EVERY: Duration = Duration::from_secs(1);
/// Projects for which the number of sent visitors is kept.
pub const SENT_PROJECTS: usize = 50_000;
/// Registers of a project that are sent before the sent ones are recorded.
pub const SENT_REGISTERS: usize = 1_000;
/// Projects for which the sent visitors are recorded, at 16 KiB each.
pub const SENT_SKETCHES: usize = 512;

const MIB: usize = 1024 * 1024;
