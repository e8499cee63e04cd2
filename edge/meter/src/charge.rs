//! Whether a completion has cost anything.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that is set when a completion is charged. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ChargeFlag(Arc<AtomicBool>);

impl ChargeFlag {
    /// Returns whether the completion was charged.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
