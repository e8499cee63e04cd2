//! Bounds of what an edge remembers, of the reads that fill its memory, and of following the changes.

use std::time::Duration;

/// Bytes that a remembered host takes with its site, about.
pub(crate) const SITE_BYTES: u64 = 768;
/// Names that one memory remembers not to be there, if their share of `edge.memory` has room for as many.
pub(crate) const REMEMBERED_ABSENCES: usize = 20_000;
/// Memories that share what is for names that are not there: of sites, keys, members, certificates.
pub(crate) const ABSENCE_MEMORIES: u64 = 4;
/// Bytes that a name takes which is remembered not to be there: the longest host, and its entry.
pub(crate) const ABSENCE_BYTES: u64 = 384;
/// Bytes that a remembered membership takes, about.
pub(crate) const MEMBERSHIP_BYTES: u64 = 256;
/// Bytes that the recent deployments of a project take, about, beside their ids.
pub(crate) const RECENT_BYTES: u64 = 256;
/// Bytes of the ids of a project's recent deployments, usually.
pub(crate) const USUAL_RECENT_BYTES: u64 = 512;
/// How long recent deployments are remembered: they also cease to be recent by time alone.
pub(crate) const RECENTS_LIFE: Duration = Duration::from_mins(5);
/// Bytes that a remembered gateway key takes with its account, about.
pub(crate) const KEY_BYTES: u64 = 384;
/// Bytes that a remembered certificate takes, about, beside its chain and its key as they are stored: the key made ready to sign,
/// the configuration for handshakes, its entry.
pub(crate) const CERTIFICATE_BYTES: u64 = 6 * 1024;
/// Bytes that a remembered certificate takes in all, usually.
pub(crate) const USUAL_CERTIFICATE_BYTES: u64 = 9 * 1024;
/// How long a name is remembered to have no certificate. Short, because what it saves is the repetition of one name; names
/// made up one after the other are read at [`CERTIFICATE_READS`] anyway.
pub(crate) const NO_CERTIFICATE_LIFE: Duration = Duration::from_secs(3);

/// Keys of one memory that are being read or waited for at the same time. Beyond it askers are refused.
pub(crate) const FLIGHTS: usize = 20_000;
/// Askers of one client that wait for reads of one memory. Beyond it they are refused.
pub(crate) const ASKERS_PER_CLIENT: usize = 1_024;
/// Keys of one memory whose failed read is remembered.
pub(crate) const FAILURES: usize = 1_000;
/// Reads of one key that may each be overtaken by a change before the asker is refused.
pub(crate) const READ_TRIES: usize = 5;
/// Time after a failed read in which the same key is not read again.
pub(crate) const READ_BACK_OFF: Duration = Duration::from_millis(500);
/// Routes, or memberships, read from Postgres at the same time.
pub(crate) const ROUTE_READS: usize = 64;
/// Routes, or memberships, read from Postgres at the same time for one client.
pub(crate) const ROUTE_READS_PER_CLIENT: usize = 16;
/// Longest wait for a route or a membership: for a turn and the read.
pub(crate) const ROUTE_WAIT: Duration = Duration::from_secs(5);
/// Gateway keys read from Postgres at the same time.
pub(crate) const KEY_READS: usize = 32;
/// Gateway keys read from Postgres at the same time for one client.
pub(crate) const KEY_READS_PER_CLIENT: usize = 8;
/// Longest wait for a gateway key: for a turn and the read.
pub(crate) const KEY_WAIT: Duration = Duration::from_secs(3);
/// Gateway keys that are nobody's which a client may show within [`UNKNOWN_KEYS_EVERY`], as far as they have to be looked up. As many as
/// an account may make requests.
pub(crate) const UNKNOWN_KEYS: u32 = 60;
/// [`UNKNOWN_KEYS`] of a block of networks, which one customer may have whole.
pub(crate) const UNKNOWN_KEYS_OF_BLOCK: u32 = 16 * UNKNOWN_KEYS;
/// The time for which a client's unknown keys are counted.
pub(crate) const UNKNOWN_KEYS_EVERY: Duration = Duration::from_mins(1);
/// Clients whose unknown keys are counted.
pub(crate) const UNKNOWN_KEY_CLIENTS: usize = 32_768;
/// Names of shares that are nobody's which a client may ask for within [`UNKNOWN_SHARES_EVERY`], as far as they have to be looked up.
/// Few visitors open as many that have expired, and who asks without a pause is through with the twenty million names in eight months.
pub(crate) const UNKNOWN_SHARES: u32 = 60;
/// [`UNKNOWN_SHARES`] of a block of networks, which one customer may have whole.
pub(crate) const UNKNOWN_SHARES_OF_BLOCK: u32 = 16 * UNKNOWN_SHARES;
/// The time for which the unknown shares that a client asks for are counted.
pub(crate) const UNKNOWN_SHARES_EVERY: Duration = Duration::from_mins(1);
/// Clients whose unknown shares are counted.
pub(crate) const UNKNOWN_SHARE_CLIENTS: usize = 32_768;
/// Certificates read from Postgres at the same time; handshakes beyond it wait for their turn.
pub(crate) const CERTIFICATE_READS: usize = 8;
/// Certificates read from Postgres at the same time for one client.
pub(crate) const CERTIFICATE_READS_PER_CLIENT: usize = 4;
/// Longest wait for a certificate: for a turn and the read. As long as a handshake may take.
pub(crate) const CERTIFICATE_WAIT: Duration = super::HANDSHAKE;
/// Answers to challenges read from Postgres at the same time. Few: anybody may ask for made-up ones, and a read takes a
/// millisecond.
pub(crate) const CHALLENGE_READS: usize = 4;
/// Answers to challenges read from Postgres at the same time for one client.
pub(crate) const CHALLENGE_READS_PER_CLIENT: usize = 2;
/// Longest wait for the answer to a challenge: for a turn and the read. Authorities wait ten seconds.
pub(crate) const CHALLENGE_WAIT: Duration = Duration::from_secs(3);

/// Interval at which it is noted that this process runs.
pub(crate) const AWAKE_EVERY: Duration = Duration::from_millis(100);
/// Time after such a note for which memory is believed. Shorter than the silence after which admin no longer waits for an edge,
/// less the age that an edge's last heartbeat may have: whatever admin has not waited for is missed by nobody.
pub(crate) const AWAKE_FOR: Duration = Duration::from_millis(750);
/// Difference between the wall clock and the time since the machine started that is no leap.
pub(crate) const CLOCK_DRIFT: Duration = Duration::from_millis(500);
/// Longest wait for a subscription to the changes to be made.
pub(crate) const SUBSCRIBE_WAIT: Duration = Duration::from_secs(2);
/// Changes read together when some were missed. When more were, everything is forgotten.
pub(crate) const MISSED_CHANGES: i64 = 1_000;
/// Changes that were applied last, which are remembered in case that the database loses them. Fewer than [`MISSED_CHANGES`], so that one
/// look tells which of them it still has.
pub(crate) const RECENT_CHANGES: usize = 256;
/// Losses of the database that wait to be reported to it.
pub(crate) const UNREPORTED_LOSSES: usize = 16;
/// Interval at which an edge records in Postgres how far it has come. Several within the silence after which admin forgets it.
pub(crate) const RECORD_EVERY: Duration = Duration::from_secs(3);
/// Longest wait for that.
pub(crate) const RECORD_WAIT: Duration = Duration::from_secs(1);
/// Interval at which Postgres is asked for missed changes while Redis brings them.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time after a look that found a change by which Redis has to have brought that change as well. Later, the subscription is taken for
/// broken. A message under way is heard within milliseconds.
pub(crate) const MISSED_AFTER: Duration = Duration::from_millis(250);
/// Interval at which Postgres is asked for changes while Redis is away, and for the epoch while that is in doubt.
pub(crate) const LOOK_EVERY_ALONE: Duration = Duration::from_secs(1);
/// Longest time for Postgres to answer which changes there are.
pub(crate) const LOOK_WAIT: Duration = Duration::from_secs(1);
/// Time for which memory is believed although neither Postgres nor Redis could confirm it.
pub(crate) const STALE: Duration = Duration::from_hours(24);
