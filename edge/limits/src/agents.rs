//! Limits for identifying agents.

use std::time::Duration;

/// Bytes of a `User-Agent` that are read; the rest is ignored.
pub const USER_AGENT_BYTES: usize = 1024;
/// Distinct user agents cached per thread, by hash: 24 bytes each.
pub const REMEMBERED_AGENTS: usize = 4096;
/// Interval at which agents' networks and keys are read from Postgres.
pub const AGENTS_EVERY: Duration = Duration::from_mins(2);
/// Maximum time for that read.
pub const AGENTS_WAIT: Duration = Duration::from_secs(10);
/// Sources of networks that are read.
pub const AGENT_SOURCES: i64 = 100;
/// Keys of agents that are read.
pub const AGENT_KEYS: i64 = 1_000;
/// Signatures verified per second, at some ten microseconds each; beyond it only the agent's name is used.
pub const SIGNATURES_PER_SECOND: u64 = 1_000;
/// Bytes of each field of a signature.
pub const SIGNATURE_FIELD_BYTES: usize = 1024;
/// Components of a request that a signature may cover.
pub const SIGNED_PARTS: usize = 16;
/// Maximum validity of a signature, as its profile recommends.
pub const SIGNATURE_AGE: Duration = Duration::from_hours(24);
/// Maximum time by which a signer's clock may be ahead.
pub const SIGNATURE_AHEAD: Duration = Duration::from_mins(1);
