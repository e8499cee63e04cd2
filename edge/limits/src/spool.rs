//! Limits of writers that wait for the disk of a spool.

use std::time::Duration;

/// Time beyond which a write to the page cache counts as delayed by the disk.
pub const SLOW_WRITE: Duration = Duration::from_millis(5);
/// Time after a slow write for which further writes are expected to be slow.
pub const SLOW_FOR: Duration = Duration::from_secs(1);
/// Checks whether another write has ended before blocking: some twenty microseconds, many times what a write takes.
pub const WRITE_SPINS: usize = 500;
/// Concurrent writers that wait for the disk, each with one of the [`blocking_threads`](super::blocking_threads).
/// Further writes fail, as on a full disk: otherwise readers of the store would find no thread.
pub const SLOW_WRITERS: usize = 8;

/// Bytes at the start of a segment that are searched for its head.
pub const SEGMENT_HEAD: u64 = 1_024;
/// Damaged segments that are remembered, so that each is logged and counted once.
pub const DAMAGED_SEGMENTS: usize = 1_000;
