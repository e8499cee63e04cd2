//! Bounds of what waits for the disk of a spool.

use std::time::Duration;

/// Time that a write to the page cache takes only when the disk holds it up.
pub(crate) const SLOW_WRITE: Duration = Duration::from_millis(5);
/// Time after a slow write for which the next ones are expected to be slow as well.
pub(crate) const SLOW_FOR: Duration = Duration::from_secs(1);
/// Looks at whether another's write has ended, before it is waited for: some twenty microseconds, which is many times what one
/// takes.
pub(crate) const WRITE_SPINS: usize = 500;
/// Writers that wait for the disk at the same time, each with one of the [`blocking_threads`](super::blocking_threads). What others
/// would write is given up, as on a full disk: else those who read the store would find no thread.
pub(crate) const SLOW_WRITERS: usize = 8;

/// Bytes at a segment's beginning in which its head is looked for.
pub(crate) const SEGMENT_HEAD: u64 = 1_024;
/// Damaged segments that are remembered, so that each is logged and counted once.
pub(crate) const DAMAGED_SEGMENTS: usize = 1_000;
