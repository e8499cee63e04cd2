//! Bounds of the meter.

use std::time::Duration;

/// Spare reservations that are made along with one at most. While they are made Redis does nothing else.
pub(crate) const SPARES: usize = 16;
/// Keys that can have spares at a time; a spare is held as the row that it would be.
pub(crate) const SPARE_KEYS: usize = 1_024;
/// Looks at Redis from one full renewal of an edge's lease to the next: five seconds.
pub(crate) const LOOKS_PER_RENEWAL: u32 = 10;
/// Interval at which spares are looked through for those that nobody used.
pub(crate) const SPARES_EVERY: Duration = Duration::from_millis(50);
/// Interval at which a request that is refused for what spares hold asks again: for as long as Redis says that they can be out.
pub(crate) const SPARES_LOOK_EVERY: Duration = Duration::from_millis(50);
/// Completions that this edge answers for: under way, or ended and not yet in Postgres. Beyond it nothing more is
/// admitted. Each takes about a kilobyte of memory and of the journal.
pub(crate) const UNSETTLED: usize = 100_000;
/// Tokens of one completion that are believed: a provider that claims more is believed so many.
pub(crate) const BELIEVED_TOKENS: u64 = 100_000_000;
/// Sums of accounts read from Postgres concurrently, after Redis has lost them.
pub(crate) const SPENT_READS: usize = 16;
/// Reads of one account's sums that may each be overtaken by a write before the client is asked to come again.
pub(crate) const SPENT_READ_TRIES: usize = 3;
/// Organizations without a subscription of which it is remembered what they have drawn of their creator's credit. Each takes about 150 bytes.
pub(crate) const FREE_CREDITS: usize = 16_384;
/// Time for which that is remembered. What nobody has asked for goes back after half an hour.
pub(crate) const FREE_CREDIT_LIFE: Duration = Duration::from_mins(1);
/// Time for which it is remembered that there was no more to draw: others may have given some back.
pub(crate) const FREE_CREDIT_DRY: Duration = Duration::from_secs(5);
/// Steps in which an organization draws the whole credit, as long as its completions are small: the fewer, the more lies unused with it.
pub(crate) const FREE_CREDIT_STEPS: u64 = 32;
/// Times that an organization draws more for one completion.
pub(crate) const FREE_CREDIT_TRIES: usize = 2;
/// Longest wait for an account's sums: for a turn, for all edges' word to an emptied Redis, and for the read.
pub(crate) const SPENT_WAIT: Duration = Duration::from_secs(5);
/// Time after Redis was found empty for which nothing is admitted: every edge then has told it what it answers for.
pub(crate) const EMPTY_REDIS_PAUSE: Duration = Duration::from_millis(1_500);
/// Time after which a Redis that began anew is asked what it takes to be under way: longer than an admission
/// waits for its answer.
pub(crate) const DISOWN_AFTER: Duration = Duration::from_secs(3);
/// The `Retry-After` of a request while the meter cannot admit anybody.
pub(crate) const METER_RETRY_AFTER: Duration = Duration::from_secs(2);
/// Interval at which usage is written to Postgres.
pub(crate) const USAGE_EVERY: Duration = Duration::from_millis(200);
/// Interval at which usage is written while Postgres refuses it.
pub(crate) const USAGE_RETRY: Duration = Duration::from_secs(1);
/// Rows of one write of usage to Postgres.
pub(crate) const USAGE_BATCH: usize = 500;
/// Longest time for one write of usage to Postgres.
pub(crate) const USAGE_WAIT: Duration = Duration::from_secs(10);
/// Longest wait of an admission that would be refused for Redis to be told what has just ended.
pub(crate) const TELL_WAIT: Duration = Duration::from_secs(1);
/// Interval at which Redis is told what has ended, unless it is more than was reserved.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(5);
/// Ended completions that Redis is told of together.
pub(crate) const REDIS_BATCH: usize = 256;
/// The size in bytes of the journal on disk. Beyond half of it no completion is admitted; the rest is for the ends of those
/// that were.
pub(crate) const JOURNAL_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of a segment of the journal, after which a new one begins.
pub(crate) const JOURNAL_SEGMENT: u64 = 4 * 1024 * 1024;
/// Interval at which the journal is brought to the disk while Postgres takes no usage.
pub(crate) const JOURNAL_SYNC: Duration = Duration::from_millis(500);
/// Time for which a segment of the journal is kept after Postgres has had all of it: a copy that takes Postgres's place may lack
/// its last moments.
pub(crate) const JOURNAL_KEPT: Duration = Duration::from_mins(15);
/// Bytes of the segments that are kept so, of all edges that share the folder: some 350,000 completions.
pub(crate) const JOURNAL_KEPT_BYTES: u64 = 256 * 1024 * 1024;
/// Interval at which Postgres is asked whether a copy has taken its place.
pub(crate) const FAILOVER_LOOK: Duration = Duration::from_secs(1);
/// Interval at which the journals of edges that have died are looked for.
pub(crate) const ADOPT_EVERY: Duration = Duration::from_secs(5);
/// Longest wait for Redis to give back what a dead edge had not asked a provider for. A job of admin settles it by then, which is taken
/// back when Redis can be asked.
pub(crate) const UNASKED_WAIT: Duration = Duration::from_secs(10);
/// Dead edges whose journals are taken over and not settled yet, of which Postgres is going to know when they are. Each takes some
/// hundred bytes, and the ids of its completions; what Redis brings back of one beyond that counts by its estimate.
pub(crate) const ADOPTED_EDGES: usize = 1_000;
/// Longest time for the meter, at the end of the program, to write to Postgres what it has.
pub(crate) const METER_LAST_WORD: Duration = Duration::from_millis(800);
/// Accounts whose latest refusal is remembered. Each takes about 200 bytes.
pub(crate) const REFUSALS: usize = 16_384;
/// Time for which it is remembered that an account's day or month had too little left for a request: other edges may have
/// given some of it back.
pub(crate) const BUDGET_REFUSAL: Duration = Duration::from_millis(250);
/// Counters of ended completions, which accounts share.
pub(crate) const END_COUNTERS: usize = 1_024;
