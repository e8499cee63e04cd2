//! Every bound of the edge, in one place.

use std::time::Duration;

/// Longest path and query of a request to a site.
pub(crate) const TARGET_BYTES: usize = 8 * 1024;
/// Memory for bodies, over all sites.
pub(crate) const BODY_CACHE_BYTES: u64 = 256 * 1024 * 1024;
/// Largest body that is kept in memory; larger ones are read while they are sent.
pub(crate) const CACHED_BODY_BYTES: u64 = 4 * 1024 * 1024;
/// Memory for manifests, over all sites.
pub(crate) const MANIFEST_CACHE_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of one read of a body that is read while it is sent.
pub(crate) const READ_BYTES: u64 = 256 * 1024;
/// Longest wait for one read from the store.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(10);
/// Parts that a request may ask for; beyond it the whole file is sent.
pub(crate) const RANGES: usize = 16;
/// Work of matching one request against the `_redirects` or `_headers` of a site, in steps; no rule matches beyond it.
pub(crate) const RULE_STEPS: u32 = 100_000;

/// Largest body of the password form.
pub(crate) const GATE_FORM_BYTES: usize = 4 * 1024;
/// How long a visitor who gave the password is not asked again.
pub(crate) const GATE_COOKIE_LIFE: Duration = Duration::from_hours(7 * 24);
/// Guesses at one site's password that one client has a minute.
pub(crate) const GUESSES_PER_MINUTE: u32 = 10;
/// Clients whose guesses are counted; while there are more, new ones have to wait.
pub(crate) const GUESSERS: usize = 100_000;
/// Password hashes computed at once: each takes 19 MiB and tens of milliseconds of a core.
pub(crate) const HASHES_AT_ONCE: usize = 4;
/// Longest wait for a turn to hash.
pub(crate) const HASH_WAIT: Duration = Duration::from_secs(2);
/// `Authorization: Basic` credentials that are remembered to be right.
pub(crate) const VERIFIED_CREDENTIALS: u64 = 10_000;
/// How long they are.
pub(crate) const VERIFIED_LIFE: Duration = Duration::from_mins(5);
/// Longest `Authorization` header that is looked at.
pub(crate) const CREDENTIALS_BYTES: usize = 1024;
