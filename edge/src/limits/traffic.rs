//! Bounds of what is counted of traffic. All of it together takes less than 200 MB, whatever visitors send: [`COUNTED_BYTES`],
//! the sums of [`COUNTED_PROJECTS`] in each shard, some 50 MB of what visitors did and which were sent, [`HOUR_KEYS`], and what waits for
//! Postgres.

use std::time::Duration;

/// Bytes of distinct keys that are counted between two collections, about, by all threads together.
pub(crate) const COUNTED_BYTES: usize = 36 * MIB;
/// The part of it that the keys of one person's projects may take, in percent: however many projects and organizations there are.
pub(crate) const PAYER_KEYS_PERCENT: usize = 33;
/// Projects whose sums are counted between two collections, by each shard: every thread may meet every project.
pub(crate) const COUNTED_PROJECTS: usize = 12_000;
/// Those of one person, over all their organizations.
pub(crate) const PAYER_PROJECTS: usize = 4_000;
/// Most shards, each for the threads that count in it. An answer holds its shard for well under a microsecond, so that some
/// threads can share one; each has room for the sums of all projects.
pub(crate) const TRAFFIC_SHARDS: usize = 4;
/// Distinct paths of a project in one hour. Postgres takes no more, from all edges together: `fold_traffic`. So it is with the
/// bounds of errors, views and persons that follow.
pub(crate) const COUNTED_PATHS: usize = 2_000;
/// Those of them that name no file, because a page or a rule answers whatever is asked for: half of them, so that who makes paths up
/// leaves room for the site's own.
pub(crate) const COUNTED_STAND_INS: usize = COUNTED_PATHS / 2;
/// Distinct errors (status, path and where it came from) of a project in one hour.
pub(crate) const COUNTED_ERRORS: usize = 1_000;
/// Distinct views (page, where it came from, country and hostname) of a project in one hour.
pub(crate) const COUNTED_VIEWS: usize = 4_000;
/// Distinct paths of all projects of one person, with all their organizations, in one hour: projects are free to make, and visitors
/// make paths up.
pub(crate) const PAYER_PATHS: usize = 10_000;
/// Those of them that name no file.
pub(crate) const PAYER_STAND_INS: usize = PAYER_PATHS / 2;
/// Distinct errors of all projects of one person in one hour.
pub(crate) const PAYER_ERRORS: usize = 5_000;
/// Distinct views of all projects of one person in one hour.
pub(crate) const PAYER_VIEWS: usize = 10_000;
/// Keys that are known to have been sent within the hour, over all persons, at some 20 bytes each. A key beyond them is sent; Postgres
/// has its own bounds.
pub(crate) const HOUR_KEYS: usize = 1_000_000;
/// The keys of [`HOUR_KEYS`] whose room a project takes that was visited within the hour.
pub(crate) const HOUR_KEYS_OF_PROJECT: usize = 8;
/// Registers of visitors of a project in one collection, beyond which equal ones are looked for, and the end of them.
pub(crate) const COUNTED_REGISTERS: usize = 32_768;
/// Bytes of the host of a page that led to a visit: as long as a hostname can be.
pub(crate) const COUNTED_REFERRER_BYTES: usize = 253;
/// Distinct hostnames of a project in one collection.
pub(crate) const COUNTED_HOSTNAMES: usize = 1_000;
/// Bytes of a path that are counted; what is longer is cut.
pub(crate) const COUNTED_PATH_BYTES: usize = 256;
/// Bytes of an answer that is still being sent, after which they are counted.
pub(crate) const COUNTED_PART_BYTES: u64 = 256 * 1024;
/// Interval at which what was counted is collected. A killed edge loses no more than this.
pub(crate) const COLLECT_EVERY: Duration = Duration::from_secs(2);
/// Keys of one batch for Postgres.
pub(crate) const TRAFFIC_BATCH_KEYS: usize = 2_000;
/// Hours of projects in one batch for Postgres.
pub(crate) const TRAFFIC_BATCH_HOURS: usize = 500;
/// Longest time for one batch.
pub(crate) const TRAFFIC_WAIT: Duration = Duration::from_secs(10);
/// Pause after a batch that failed.
pub(crate) const TRAFFIC_RETRY: Duration = Duration::from_secs(1);

/// Parts of the memory of visitors, so that hardly ever two threads want the same one.
pub(crate) const VISITOR_STRIPES: usize = 256;
/// Visitors of whom it is remembered what they are; of as many again that were not met since.
pub(crate) const KNOWN_VISITORS: usize = 256 * 1024;
/// Visitors who have taken a page and wait to be judged. Beyond it they are judged by their fields.
pub(crate) const WAITING_VISITORS: usize = 128 * 1024;
/// Bytes of visitors who wait to be judged, about.
pub(crate) const WAITING_BYTES: usize = 16 * MIB;
/// Pages that a visitor may take without a part of any before it is judged.
pub(crate) const WAITING_PAGES: usize = 4;
/// Time within which a browser loads a part of a page that it shows.
pub(crate) const PARTS_WITHIN: Duration = Duration::from_secs(10);
/// Visitors that are counted together, once it is known what they are.
pub(crate) const SETTLED_AT_ONCE: usize = 128;
/// Bytes of the salt of a day's visitors.
pub(crate) const SALT_BYTES: usize = 32;
/// Time before midnight at which tomorrow's salt is there; some edges ask for it later than others.
pub(crate) const SALT_AHEAD: Duration = Duration::from_mins(10);
/// Interval at which it is looked whether the salt is of today.
pub(crate) const SALT_LOOK: Duration = Duration::from_secs(1);
/// Projects of which it is known how many visitors were sent.
pub(crate) const SENT_PROJECTS: usize = 50_000;
/// Registers of a project that are sent before it is remembered which.
pub(crate) const SENT_REGISTERS: usize = 1_000;
/// Projects of which it is remembered which visitors were sent, at 16 KiB each.
pub(crate) const SENT_SKETCHES: usize = 512;

const MIB: usize = 1024 * 1024;
