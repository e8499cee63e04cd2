//! Limits of unsolicited bodies, paced bodies, and blocking threads.

use std::time::Duration;

/// Blocking threads (reads of the store's folder, passwords, the journal) per core, unless `edge.blocking_threads` is
/// set. Each has a stack, and memory that the allocator keeps for it. Readers wait for each other rather than for the
/// disk: this many keep a fast disk busy.
pub const BLOCKING_THREADS_PER_CORE: usize = 16;
/// Minimum of blocking threads.
pub const LEAST_BLOCKING_THREADS: usize = 32;
/// Maximum of blocking threads.
pub const MOST_BLOCKING_THREADS: usize = 128;
/// Bytes of a paced body that are scheduled together: a sixteenth of a second at the default pace.
pub const PACED_BYTES: usize = 16 * 1024;
/// Scheduled bodies of one client: browsers open that many connections.
pub const PACED_PER_CLIENT: usize = 6;
/// Maximum wait for the first bytes of a paced body; beyond it responses are refused.
pub const PACED_BACKLOG: Duration = Duration::from_secs(30);
/// Minimum pace in bytes per second, whatever is configured: slower responses are aborted elsewhere.
pub const LEAST_PACE: u64 = 16 * 1024;
/// Bytes of an unsolicited body that are read, so that its sender receives the response.
pub const UNWANTED_BODY_BYTES: usize = 1024 * 1024;
/// Bytes read of an unsolicited body of known length: some HTTP/2 clients lose a response that precedes its end.
pub const UNWANTED_ANNOUNCED_BYTES: u64 = 16 * 1024 * 1024;

/// Returns the default number of blocking threads, by the machine's cores.
pub fn blocking_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores * BLOCKING_THREADS_PER_CORE).clamp(LEAST_BLOCKING_THREADS, MOST_BLOCKING_THREADS)
}

/// Time for which failures of one site share the ID of one log line.
pub const INCIDENT_LIFE: Duration = Duration::from_secs(1);
/// Sites whose log line is remembered for that.
pub const INCIDENTS: usize = 1_024;
