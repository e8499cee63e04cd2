//! Limits of serving files.

use std::time::Duration;

/// Bytes of the path and query of a request to a site.
pub const TARGET_BYTES: usize = 8 * 1024;
/// Bytes of the headers that a site's `_headers` add to one response, including names and [`FIELD_OVERHEAD_BYTES`].
/// With our own they stay below 16 KB, the maximum head of many clients (such as hyper).
pub const SITE_FIELDS_BYTES: usize = 15 * 1024;
/// Bytes of a header beyond its name and value (RFC 9113, section 6.5.2), so that many small ones are not cheaper.
pub const FIELD_OVERHEAD_BYTES: usize = 32;
/// Bytes of the largest body that is cached. Larger ones are streamed from the store.
pub const CACHED_BODY_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of a block: of a cached body, of which a response holds a few at a time, and of one read of a streamed body.
/// With the head of its response it is no more than rustls buffers.
pub const BLOCK_BYTES: usize = 60 * 1024;
/// Decoded bytes of the largest body that is decoded for a client that does not accept its stored coding.
pub const DECODED_BYTES: u64 = 16 * 1024 * 1024;
/// Bodies that are decoded concurrently. A response holds its turn while the body is decoded, not while it is sent.
pub const CONCURRENT_DECODES: usize = 4;
/// [`CONCURRENT_DECODES`] of the sites of one account while half of them are free.
pub const DECODED_OF_ACCOUNT: usize = CONCURRENT_DECODES;
/// Bytes of one read of a body that its visitor hardly reads.
pub const SMALL_READ_BYTES: usize = 4 * 1024;
/// Blocks of an HTTP/1.1 response that are passed on together.
pub const RUN_BLOCKS: usize = 4;
/// Blocks of one read from a bucket for a visitor that keeps up: with one in flight, under half of a connection's
/// share.
pub const READ_AHEAD_BLOCKS: u64 = 7;
/// Maximum time for a visitor to take one read for the next one to be larger.
pub const READ_AHEAD_PACE: Duration = Duration::from_secs(1);
/// Bytes of one read that loads a body into the cache: whole blocks.
pub const LOAD_BYTES: u64 = 16 * BLOCK_BYTES as u64;
/// Shards of the cache of bodies, and at most of manifests. Few, so that each is much larger than the largest entry.
pub const CACHE_SHARDS: usize = 8;
/// Approximate bytes of a typical body, from which the cache of bodies estimates its number of entries.
pub const USUAL_BODY_BYTES: u64 = 16 * 1024;
/// Approximate bytes of a typical manifest, from which the cache of manifests estimates its number of entries.
pub const USUAL_MANIFEST_BYTES: u64 = 128 * 1024;
/// Bytes of a shard of the cache of manifests: more than the largest manifest takes, so that each can be cached.
pub const MANIFEST_SHARD_BYTES: u64 = 48 * 1024 * 1024;
/// Concurrent reads of bodies into the cache.
pub const CONCURRENT_LOADS: usize = 64;
/// [`CONCURRENT_LOADS`] of the sites of one account while half of them are free: two thirds, when no others read.
pub const LOADS_OF_ACCOUNT: usize = CONCURRENT_LOADS;
/// Reads into the cache that wait for their turn. Each block or manifest has one, however many requests want it.
pub const LOADS_WAITING: usize = 20_000;
/// [`LOADS_WAITING`] of the sites of one account.
pub const LOADS_WAITING_OF_ACCOUNT: usize = 4_096;
/// Concurrent reads of manifests into the cache. The largest takes some 50 MB while it is read.
pub const CONCURRENT_MANIFEST_LOADS: usize = 4;
/// [`CONCURRENT_MANIFEST_LOADS`] of the sites of one account while half of them are free: three, when no others read.
pub const MANIFEST_LOADS_OF_ACCOUNT: usize = CONCURRENT_MANIFEST_LOADS;
/// Divisor of the bytes in flight for the maximum that reading one manifest takes, so that the largest can be read
/// while others are busy, even with the minimum memory of an edge.
pub const MANIFEST_FLIGHT_DIVISOR: u64 = 2;
/// Maximum wait for one read from the store.
pub const STORE_WAIT: Duration = Duration::from_secs(10);
/// Time for which a lost or damaged part of the store is not read again.
pub const FAULT_LIFE: Duration = Duration::from_secs(5);
/// Interval at which a fault of the same pack is logged again.
pub const FAULT_LOG_EVERY: Duration = Duration::from_mins(1);
/// Faults of the store that are remembered, and packs with a logged fault.
pub const FAULTS: usize = 4_096;
/// Concurrent checks in Postgres whether a deployment whose pack is not in the store still exists.
pub const KEPT_LOOKS: usize = 8;
/// Maximum wait for such a check.
pub const KEPT_WAIT: Duration = Duration::from_secs(3);
/// Ranges that a request may ask for. Beyond it the whole file is sent.
pub const RANGES: usize = 16;
/// Redirects that are followed to detect that a redirect within the site loops: browsers give up after some twenty.
pub const CIRCLE_STEPS: usize = 20;
/// Query parameters that the conditions of `_redirects` consider.
pub const QUERY_PARAMETERS: usize = 100;
/// Languages of a visitor that are considered.
pub const LANGUAGES: usize = 50;
/// Packs with their own accounts to protect in one response: the live one, and one that lends a file.
pub const GUARDED_PACKS: usize = 2;
