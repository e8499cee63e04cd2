//! Limits of the meter.

use std::time::Duration;

/// Maximum of spare reservations made along with one. Redis does nothing else meanwhile.
pub const SPARES: usize = 16;
/// Keys that can have spares at a time; a spare is stored as the row that it would become.
pub const SPARE_KEYS: usize = 1_024;
/// Checks of Redis from one full renewal of an edge's lease to the next: five seconds.
pub const CHECKS_PER_RENEWAL: u32 = 10;
/// Interval at which unused spares are collected.
pub const SPARES_EVERY: Duration = Duration::from_millis(50);
/// Interval at which a request refused because of spares retries, while Redis says that they can be outstanding.
pub const SPARES_LOOK_EVERY: Duration = Duration::from_millis(50);
/// Completions that this edge accounts for: in flight, or ended and not yet in Postgres. Beyond it requests are
/// refused. Each takes about a kilobyte of memory and of the journal.
pub const UNSETTLED: usize = 100_000;
/// Maximum tokens of one completion: a larger number reported by a provider is capped to it.
pub const BELIEVED_TOKENS: u64 = 100_000_000;
/// Concurrent reads of accounts' totals from Postgres, after Redis has lost them.
pub const SPENT_READS: usize = 16;
/// Reads of one account's totals that writes may overtake before the client has to retry.
pub const SPENT_READ_TRIES: usize = 3;
/// Organizations without a subscription whose credit drawn from their creator is cached, at about 150 bytes each.
pub const FREE_CREDITS: usize = 16_384;
/// Time for which drawn credit is cached. Credit that no request asked for is returned after half an hour.
pub const FREE_CREDIT_LIFE: Duration = Duration::from_mins(1);
/// Time for which exhausted credit is cached: others may have returned some.
pub const FREE_CREDIT_DRY: Duration = Duration::from_secs(5);
/// Steps in which an organization draws the whole credit for small completions: with fewer, more lies unused.
pub const FREE_CREDIT_STEPS: u64 = 32;
/// Times that an organization draws more credit for one completion.
pub const FREE_CREDIT_TRIES: usize = 2;
/// Maximum wait for an account's totals: for a turn, for all edges to report to an emptied Redis, and for the read.
pub const SPENT_WAIT: Duration = Duration::from_secs(5);
/// Pause in admissions after Redis was found empty, in which every edge reports the completions it accounts for.
pub const EMPTY_REDIS_PAUSE: Duration = Duration::from_millis(1_500);
/// Time before a restarted Redis is queried for completions in flight: longer than an admission waits for a response.
pub const DISOWN_AFTER: Duration = Duration::from_secs(3);
/// The `Retry-After` of a request while the meter admits no requests.
pub const METER_RETRY_AFTER: Duration = Duration::from_secs(2);
/// Interval at which usage is written to Postgres.
pub const USAGE_EVERY: Duration = Duration::from_millis(200);
/// Interval at which usage is written while Postgres refuses it.
pub const USAGE_RETRY: Duration = Duration::from_secs(1);
/// Rows of one write of usage to Postgres.
pub const USAGE_BATCH: usize = 500;
/// Maximum time for one write of usage to Postgres.
pub const USAGE_WAIT: Duration = Duration::from_secs(10);
/// Maximum wait of an admission that would be refused until Redis knows the completions that have just ended.
pub const REPORT_WAIT: Duration = Duration::from_secs(1);
/// Interval at which ended completions are reported to Redis, unless one used more than was reserved.
pub const REPORT_EVERY_ENDED: Duration = Duration::from_millis(5);
/// Ended completions reported to Redis together.
pub const REDIS_BATCH: usize = 256;
/// Bytes of the journal on disk. Beyond half, completions are refused; the rest is for the ends of admitted ones.
pub const JOURNAL_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of a segment of the journal, after which a new one starts.
pub const JOURNAL_SEGMENT: u64 = 4 * 1024 * 1024;
/// Interval at which the journal is synced to disk while Postgres does not accept usage.
pub const JOURNAL_SYNC: Duration = Duration::from_millis(500);
/// Time for which a segment is kept after Postgres has it: a replica that replaces Postgres may lack its last moments.
pub const JOURNAL_KEPT: Duration = Duration::from_mins(15);
/// Bytes of such kept segments, of all edges that share the folder: some 350,000 completions.
pub const JOURNAL_KEPT_BYTES: u64 = 256 * 1024 * 1024;
/// Interval at which Postgres is checked for a failover.
pub const FAILOVER_CHECK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the journals of dead edges are searched for.
pub const ADOPT_EVERY: Duration = Duration::from_secs(5);
/// Maximum wait for Redis to release the reservations of a dead edge that it had not sent to a provider. By then a job
/// of admin settles them, which is undone once Redis is reachable.
pub const UNASKED_WAIT: Duration = Duration::from_secs(10);
/// Dead edges whose adopted journals are not settled yet, to be recorded in Postgres. Each takes some hundred bytes,
/// and the IDs of its completions; a completion that Redis returns beyond this counts by its estimate.
pub const ADOPTED_EDGES: usize = 1_000;
/// Maximum time for the meter to write its remaining usage to Postgres when the program ends.
pub const METER_END_WAIT: Duration = Duration::from_millis(800);
/// Accounts whose latest refusal is cached. Each takes about 200 bytes.
pub const REFUSALS: usize = 16_384;
/// Time for which an insufficient day's or month's budget of an account is cached: other edges may release some.
pub const BUDGET_REFUSAL: Duration = Duration::from_millis(250);
/// Counters of ended completions, shared by accounts.
pub const END_COUNTERS: usize = 1_024;
