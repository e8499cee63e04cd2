//! Bounds of what is read of bodies that nobody asked for, of bodies at a pace, and of threads that wait for the machine.

use std::time::Duration;

/// Threads for what blocks (reads of the store's folder, passwords, the journal) to a core, unless `edge.blocking_threads` says otherwise.
/// Each has a stack, and memory that the allocator keeps for it. Those who read wait for each other rather than for the disk: as many as
/// keep a fast disk busy.
pub(crate) const BLOCKING_THREADS_PER_CORE: usize = 16;
/// Threads for what blocks, at least.
pub(crate) const LEAST_BLOCKING_THREADS: usize = 32;
/// Threads for what blocks, at most.
pub(crate) const MOST_BLOCKING_THREADS: usize = 128;
/// Bytes of a body at a pace that are booked together: a sixteenth of a second at the pace of an edge that is not configured.
pub(crate) const PACED_BYTES: usize = 16 * 1024;
/// Bookings of one client at a pace: as many as browsers have connections.
pub(crate) const PACED_PER_CLIENT: usize = 6;
/// Longest wait for the first bytes at a pace; beyond it answers are refused.
pub(crate) const PACED_BACKLOG: Duration = Duration::from_secs(30);
/// Bytes a second of the slowest pace, whatever is configured: what is slower is cut off elsewhere.
pub(crate) const LEAST_PACE: u64 = 16 * 1024;
/// Bytes that are read of a body that nobody asked for, so that its sender receives the answer.
pub(crate) const UNWANTED_BODY_BYTES: usize = 1024 * 1024;
/// Bytes that are read of a body that nobody asked for where its length was announced: some clients of HTTP/2 lose an answer that comes
/// before they have sent all of it.
pub(crate) const UNWANTED_ANNOUNCED_BYTES: u64 = 16 * 1024 * 1024;

/// The threads for what blocks where none are configured: by the machine's cores.
pub fn blocking_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores * BLOCKING_THREADS_PER_CORE).clamp(LEAST_BLOCKING_THREADS, MOST_BLOCKING_THREADS)
}

/// Time for which failures of one site have the id of one line of the log.
pub(crate) const INCIDENT_LIFE: Duration = Duration::from_secs(1);
/// Sites of which that is remembered at a time.
pub(crate) const INCIDENTS: usize = 1_024;
