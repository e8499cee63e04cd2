//! Limits of an edge's caches of routes, keys and certificates, of the reads that fill them, and of following changes.

use std::time::Duration;

/// Approximate bytes of a cached host with its site.
pub const SITE_BYTES: u64 = 768;
/// Missing names that one cache remembers, if their share of `edge.memory` has room.
pub const REMEMBERED_ABSENCES: usize = 20_000;
/// Caches that share the memory for missing names: sites, keys, members, certificates.
pub const ABSENCE_MEMORIES: u64 = 4;
/// Bytes of a missing name: the longest host, and its entry.
pub const ABSENCE_BYTES: u64 = 384;
/// Approximate bytes of a cached membership.
pub const MEMBERSHIP_BYTES: u64 = 256;
/// Approximate bytes of a project's cached recent deployments, without their IDs.
pub const RECENT_BYTES: u64 = 256;
/// Usual bytes of the IDs of a project's recent deployments.
pub const USUAL_RECENT_BYTES: u64 = 512;
/// Time for which recent deployments are cached: they also cease to be recent through time alone.
pub const RECENTS_LIFE: Duration = Duration::from_mins(5);
/// Approximate bytes of a cached gateway key with its account.
pub const KEY_BYTES: u64 = 384;
/// Approximate bytes of a cached certificate beyond chain and key: the loaded key, the TLS configuration, its entry.
pub const CERTIFICATE_BYTES: u64 = 6 * 1024;
/// Usual bytes of a cached certificate in total.
pub const USUAL_CERTIFICATE_BYTES: u64 = 9 * 1024;
/// Time for which a name is remembered to have no certificate. Short, because it only saves repeated reads of one name;
/// ever new made-up names are read at the rate that [`CERTIFICATE_READS`] allows anyway.
pub const NO_CERTIFICATE_LIFE: Duration = Duration::from_secs(3);

/// Keys of one cache that are concurrently read or waited for. Beyond it requests fail.
pub const FLIGHTS: usize = 20_000;
/// Requests of one client waiting for reads of one cache. Beyond it they fail.
pub const ASKERS_PER_CLIENT: usize = 1_024;
/// Keys of one cache whose failed read is remembered.
pub const FAILURES: usize = 1_000;
/// Reads of one key that changes may overtake before the request fails.
pub const READ_TRIES: usize = 5;
/// Backoff after a failed read of a key.
pub const READ_BACK_OFF: Duration = Duration::from_millis(500);
/// Concurrent reads of routes, or of memberships, from Postgres.
pub const ROUTE_READS: usize = 64;
/// Concurrent reads of routes, or of memberships, from Postgres for one client.
pub const ROUTE_READS_PER_CLIENT: usize = 16;
/// Maximum wait for a route or a membership: for a turn and the read.
pub const ROUTE_WAIT: Duration = Duration::from_secs(5);
/// Concurrent reads of gateway keys from Postgres.
pub const KEY_READS: usize = 32;
/// Concurrent reads of gateway keys from Postgres for one client.
pub const KEY_READS_PER_CLIENT: usize = 8;
/// Maximum wait for a gateway key: for a turn and the read.
pub const KEY_WAIT: Duration = Duration::from_secs(3);
/// Unknown gateway keys that a client may present within [`UNKNOWN_KEYS_EVERY`], counting only those that have to be
/// looked up. As many requests as an account may make.
pub const UNKNOWN_KEYS: u32 = 60;
/// [`UNKNOWN_KEYS`] of a block of networks, all of which one customer may control.
pub const UNKNOWN_KEYS_OF_BLOCK: u32 = 16 * UNKNOWN_KEYS;
/// Window of [`UNKNOWN_KEYS`].
pub const UNKNOWN_KEYS_EVERY: Duration = Duration::from_mins(1);
/// Clients whose unknown keys are counted.
pub const UNKNOWN_KEY_CLIENTS: usize = 32_768;
/// Unknown share names that a client may look up within [`UNKNOWN_SHARES_EVERY`]. Few visitors open that many expired
/// shares, and trying all twenty million names without a pause takes eight months.
pub const UNKNOWN_SHARES: u32 = 60;
/// [`UNKNOWN_SHARES`] of a block of networks, all of which one customer may control.
pub const UNKNOWN_SHARES_OF_BLOCK: u32 = 16 * UNKNOWN_SHARES;
/// Window of [`UNKNOWN_SHARES`].
pub const UNKNOWN_SHARES_EVERY: Duration = Duration::from_mins(1);
/// Clients whose unknown shares are counted.
pub const UNKNOWN_SHARE_CLIENTS: usize = 32_768;
/// Concurrent reads of certificates from Postgres; further handshakes wait for their turn.
pub const CERTIFICATE_READS: usize = 8;
/// Concurrent reads of certificates from Postgres for one client.
pub const CERTIFICATE_READS_PER_CLIENT: usize = 4;
/// Maximum wait for a certificate, for a turn and the read: the maximum time of a handshake.
pub const CERTIFICATE_WAIT: Duration = super::HANDSHAKE;
/// Concurrent reads of challenge responses from Postgres. Few: anybody may request made-up ones, and a read takes 1 ms.
pub const CHALLENGE_READS: usize = 4;
/// Concurrent reads of challenge responses from Postgres for one client.
pub const CHALLENGE_READS_PER_CLIENT: usize = 2;
/// Maximum wait for a challenge response: for a turn and the read. Authorities wait ten seconds.
pub const CHALLENGE_WAIT: Duration = Duration::from_secs(3);

/// Interval at which the process records that it is running.
pub const AWAKE_EVERY: Duration = Duration::from_millis(100);
/// Time after such a record for which memory is trusted. Shorter than the silence after which admin stops waiting for
/// an edge, minus the age that its last heartbeat may have: such an edge no longer trusts its memory.
pub const AWAKE_FOR: Duration = Duration::from_millis(750);
/// Difference between the wall clock and the time since boot that does not count as a clock jump.
pub const CLOCK_DRIFT: Duration = Duration::from_millis(500);
/// Maximum time to subscribe to changes.
pub const SUBSCRIBE_WAIT: Duration = Duration::from_secs(2);
/// Missed changes that are read together. If more were missed, all memory is discarded.
pub const MISSED_CHANGES: i64 = 1_000;
/// Applied changes kept in case the database loses them. Fewer than [`MISSED_CHANGES`], so that one query finds all.
pub const RECENT_CHANGES: usize = 256;
/// Database losses waiting to be reported to the database.
pub const UNREPORTED_LOSSES: usize = 16;
/// Interval at which an edge records its position in Postgres: several times before admin forgets a silent edge.
pub const RECORD_EVERY: Duration = Duration::from_secs(3);
/// Maximum time to record it.
pub const RECORD_WAIT: Duration = Duration::from_secs(1);
/// Interval at which Postgres is polled for missed changes while Redis delivers them.
pub const POLL_EVERY: Duration = Duration::from_secs(5);
/// Time for Redis to deliver a change found in Postgres, normally milliseconds; then the subscription counts as broken.
pub const MISSED_AFTER: Duration = Duration::from_millis(250);
/// Interval of polling Postgres for changes while Redis is unreachable, and for the epoch while it is in doubt.
pub const POLL_EVERY_WITHOUT_REDIS: Duration = Duration::from_secs(1);
/// Maximum time for a poll of Postgres for changes.
pub const POLL_WAIT: Duration = Duration::from_secs(1);
/// Time for which memory is trusted although neither Postgres nor Redis could confirm it.
pub const STALE: Duration = Duration::from_hours(24);
