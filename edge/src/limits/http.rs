//! Bounds of what is read of bodies that nobody asked for, and of threads that wait for the machine.

/// Threads for what blocks: reads of the store's folder, passwords, the journal. Each has a stack, and memory that the allocator keeps for it.
/// Those who read wait for each other rather than for the disk: as many as keep a fast disk busy.
pub const BLOCKING_THREADS: usize = 32;
/// Bytes that are read of a body that nobody asked for, so that its sender receives the answer.
pub(crate) const UNWANTED_BODY_BYTES: usize = 1024 * 1024;
