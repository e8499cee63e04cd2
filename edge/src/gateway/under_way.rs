//! Completions under way: how many a connection has, whether any are left at all, and their end at shutdown.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// The completions under way on one connection. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCompletions(Arc<AtomicUsize>);

impl ConnectionCompletions {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// All completions that are under way, with their clients or without. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnderWay {
    pub(super) tasks: TaskTracker,
    /// Cancelled when completions end as they are, because the edge does.
    pub(super) cut_off: CancellationToken,
}

/// A completion's place among those under way, held until its answer has been handed over.
pub(super) struct Held {
    _all: TaskTrackerToken,
    connection: ConnectionCompletions,
}

impl UnderWay {
    /// Counts a completion that begins on a connection.
    pub(super) fn begin(&self, connection: &ConnectionCompletions) -> Held {
        connection.0.fetch_add(1, Ordering::Relaxed);
        Held { _all: self.tasks.token(), connection: connection.clone() }
    }

    /// Done when no completion is left; none may begin any more.
    pub(super) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connection.0.fetch_sub(1, Ordering::Relaxed);
    }
}
