//! Bounds of what is read and remembered to tell who asks.

use std::time::Duration;

/// Bytes of a `User-Agent` that are read; what follows says nothing more.
pub(crate) const USER_AGENT_BYTES: usize = 1024;
/// Distinct user agents that a thread remembers, by hash: 24 bytes each.
pub(crate) const REMEMBERED_AGENTS: usize = 4096;
/// Interval at which networks and keys of agents are read from Postgres.
pub(crate) const AGENTS_EVERY: Duration = Duration::from_mins(2);
/// Longest time for that reading.
pub(crate) const AGENTS_WAIT: Duration = Duration::from_secs(10);
/// Sources of networks that are read.
pub(crate) const AGENT_SOURCES: i64 = 100;
/// Keys of agents that are read.
pub(crate) const AGENT_KEYS: i64 = 1_000;
/// Signatures that are verified in a second, each for some ten microseconds; of others only the name counts.
pub(crate) const SIGNATURES_PER_SECOND: u64 = 1_000;
/// Bytes of each field of a signature.
pub(crate) const SIGNATURE_FIELD_BYTES: usize = 1024;
/// Parts of a request that a signature may cover.
pub(crate) const SIGNED_PARTS: usize = 16;
/// Longest validity of a signature, which its profile recommends.
pub(crate) const SIGNATURE_AGE: Duration = Duration::from_hours(24);
/// Time by which a signer's clock may be ahead.
pub(crate) const SIGNATURE_AHEAD: Duration = Duration::from_mins(1);
