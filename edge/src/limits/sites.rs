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
/// Bytes of memory for bodies, over all sites.
pub(crate) const BODY_CACHE_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of the largest body that is kept in memory. Larger ones are read while they are sent.
pub(crate) const CACHED_BODY_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of memory for manifests, over all sites.
pub(crate) const MANIFEST_CACHE_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of one read from a body that is read while it is sent.
pub(crate) const READ_BYTES: u64 = 256 * 1024;
/// Shards of the memory for bodies, and of that for manifests. Few, so that the largest body is small beside each.
pub(crate) const CACHE_SHARDS: usize = 8;
/// Bytes of an ordinary body, about, from which the memory for bodies estimates its entries.
pub(crate) const USUAL_BODY_BYTES: u64 = 16 * 1024;
/// Bytes of an ordinary manifest, about, from which the memory for manifests estimates its entries.
pub(crate) const USUAL_MANIFEST_BYTES: u64 = 128 * 1024;
/// Concurrent reads of manifests and bodies into memory: together no more than the memory for bodies.
pub(crate) const LOADS_AT_ONCE: usize = 64;
/// Longest wait for one read from the store.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(10);
/// Ranges that a request may ask for. Beyond it the whole file is sent.
pub(crate) const RANGES: usize = 16;
