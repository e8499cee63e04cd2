//! Request ids, by which a client's report can be found in the log.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// Generates request ids that are unique in the process, and with high probability among all processes.
pub(super) struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        Self { process: RandomState::new().hash_one(std::process::id()), next: AtomicU64::new(0) }
    }

    pub(super) fn generate(&self) -> String {
        format!("req_{:016x}{:08x}", self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
