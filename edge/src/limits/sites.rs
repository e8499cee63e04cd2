//! Bounds of serving files.

use std::time::Duration;

/// Bytes of the path and query of a request to a site.
pub(crate) const TARGET_BYTES: usize = 8 * 1024;
/// Bytes of the headers that a site's `_headers` add to one answer, names and [`FIELD_OVERHEAD_BYTES`] included. With our
/// own they stay below 16 KB, which is what many clients take of a head (hyper's for one).
pub(crate) const SITE_FIELDS_BYTES: usize = 15 * 1024;
/// Bytes that a header costs beside its name and value, as HTTP/2 counts (RFC 9113, section 6.5.2). So many small headers are
/// not cheaper than a few large ones.
pub(crate) const FIELD_OVERHEAD_BYTES: usize = 32;
/// Bytes of the largest body that is kept in memory. Larger ones are read while they are sent.
pub(crate) const CACHED_BODY_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of a block: of a kept body, of which an answer holds a few at a time, and of one read from a body that is read while
/// it is sent. With the head of its answer it is no more than what rustls takes in one call.
pub(crate) const BLOCK_BYTES: usize = 60 * 1024;
/// Bytes of the largest body, decoded, that is decoded for a client which does not take the coding that it is stored in.
pub(crate) const DECODED_BYTES: u64 = 16 * 1024 * 1024;
/// Bodies that are decoded at the same time. Responses hold their turn while the body is decoded, not while it is sent.
pub(crate) const DECODED_AT_ONCE: usize = 4;
/// [`DECODED_AT_ONCE`] of the sites of one account, as long as half of them are free.
pub(crate) const DECODED_OF_ACCOUNT: usize = DECODED_AT_ONCE;
/// Bytes that are read of a body when a visitor takes hardly anything of it.
pub(crate) const SMALL_READ_BYTES: usize = 4 * 1024;
/// Blocks of an answer over HTTP/1.1 that are handed on together.
pub(crate) const RUN_BLOCKS: usize = 4;
/// Blocks of one read from a bucket of a body that is read while it is sent, for a visitor who takes them. With the block on
/// its way they are less than half of what a connection holds.
pub(crate) const READ_AHEAD_BLOCKS: u64 = 7;
/// Longest time for a visitor to take what was read, if more of it is to be read next time.
pub(crate) const READ_AHEAD_PACE: Duration = Duration::from_secs(1);
/// Bytes of one read that brings a body into memory: whole blocks.
pub(crate) const LOAD_BYTES: u64 = 16 * BLOCK_BYTES as u64;
/// Shards of the memory for bodies, and the most that the memory for manifests has. Few, so that the largest entry is small
/// beside each.
pub(crate) const CACHE_SHARDS: usize = 8;
/// Bytes of an ordinary body, about, from which the memory for bodies estimates its entries.
pub(crate) const USUAL_BODY_BYTES: u64 = 16 * 1024;
/// Bytes of an ordinary manifest, about, from which the memory for manifests estimates its entries.
pub(crate) const USUAL_MANIFEST_BYTES: u64 = 128 * 1024;
/// Bytes of the memory for manifests to a shard: more than the largest manifest takes, so that every one can be kept.
pub(crate) const MANIFEST_SHARD_BYTES: u64 = 48 * 1024 * 1024;
/// Concurrent reads of bodies into memory.
pub(crate) const LOADS_AT_ONCE: usize = 64;
/// [`LOADS_AT_ONCE`] of the sites of one account, as long as half of them are free: two thirds, where no other reads.
pub(crate) const LOADS_OF_ACCOUNT: usize = LOADS_AT_ONCE;
/// Reads into memory that wait for their turn. Of each block, or manifest, there is one, whoever asks for it.
pub(crate) const LOADS_WAITING: usize = 20_000;
/// [`LOADS_WAITING`] of the sites of one account.
pub(crate) const LOADS_WAITING_OF_ACCOUNT: usize = 4_096;
/// Concurrent reads of manifests into memory. The largest takes some 50 MB while it is read.
pub(crate) const MANIFEST_LOADS_AT_ONCE: usize = 4;
/// [`MANIFEST_LOADS_AT_ONCE`] of the sites of one account, as long as half of them are free: three, where no other reads.
pub(crate) const MANIFEST_LOADS_OF_ACCOUNT: usize = MANIFEST_LOADS_AT_ONCE;
/// The part of the bytes in flight that the read of one manifest takes at most: one in so many. So the largest can be read also where
/// others are at work, in as little memory as an edge may have.
pub(crate) const MANIFEST_FLIGHT_DIVISOR: u64 = 2;
/// Longest wait for one read from the store.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(10);
/// Time for which a part of the store that was found lost or damaged is not read again.
pub(crate) const FAULT_LIFE: Duration = Duration::from_secs(5);
/// Time after which the log has a fault of the same pack again.
pub(crate) const FAULT_LOG_EVERY: Duration = Duration::from_mins(1);
/// Faults of the store that are remembered, and packs of which the log had one.
pub(crate) const FAULTS: usize = 4_096;
/// Looks in Postgres, at the same time, whether a deployment whose pack is not in the store is still there.
pub(crate) const KEPT_LOOKS: usize = 8;
/// Longest wait for such a look.
pub(crate) const KEPT_WAIT: Duration = Duration::from_secs(3);
/// Ranges that a request may ask for. Beyond it the whole file is sent.
pub(crate) const RANGES: usize = 16;
/// Redirects that are followed to see whether one to an address of the site itself leads back: browsers give up after some twenty.
pub(crate) const CIRCLE_STEPS: usize = 20;
/// Parameters of a request's query that the conditions of `_redirects` look at.
pub(crate) const QUERY_PARAMETERS: usize = 100;
/// Languages of a visitor that are weighed.
pub(crate) const LANGUAGES: usize = 50;
/// Packs of which one answer may be guarded by accounts of their own: the live one, and one that lends a file.
pub(crate) const GUARDED_PACKS: usize = 2;
