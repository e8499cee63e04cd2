//! Pending completions: their number per connection, whether any are left, and their end at shutdown.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// The pending completions of one connection. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCompletions(Arc<AtomicUsize>);

impl ConnectionCompletions {
    /// Returns whether any are pending.
    pub fn has_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// All pending completions, with or without their clients. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct PendingCompletions {
    pub(super) tasks: TaskTracker,
    /// Cancelled when the edge's shutdown cuts completions off.
    pub(super) cut_off: CancellationToken,
}

/// Counts a completion as pending until its answer has been handed over.
pub(super) struct PendingGuard {
    _all: TaskTrackerToken,
    connection: ConnectionCompletions,
}

impl PendingCompletions {
    /// Counts a completion that begins on a connection.
    pub(super) fn begin(&self, connection: &ConnectionCompletions) -> PendingGuard {
        connection.0.fetch_add(1, Ordering::Relaxed);
        PendingGuard { _all: self.tasks.token(), connection: connection.clone() }
    }

    /// Waits until no completion is left. No new ones may begin.
    pub(super) async fn wait_until_idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.connection.0.fetch_sub(1, Ordering::Relaxed);
    }
}
