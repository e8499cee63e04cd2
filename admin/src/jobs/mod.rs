//! Background work: reconcilers that take no input, may run twice, and do a bounded batch under a lease.
//!
//! Every admin attends to every job; leases in Postgres keep them apart, so that a job runs once in its interval
//! whatever the number of admins. To add one: a file here with an `impl Job`, and a line in [`start`].

mod forget;
mod lease;
mod packs;
mod pushes;
mod route_changes;
mod shares;
mod uploads;
mod usage;

use std::time::Duration;

use crate::app::App;

/// A reconciler.
trait Job: Send + Sync + 'static {
    /// What its lease is called. Never change one.
    const NAME: &'static str;
    /// How often it runs.
    const EVERY: Duration;
    /// Longest run. A lease lasts so long, so that a dead program's job is taken over.
    const LEASE: Duration = Duration::from_mins(5);

    /// Does one batch. May be cut off anywhere by the program's stop or the lease's end.
    fn run(&self, app: &App) -> impl Future<Output = anyhow::Result<Batch>> + Send;
}

/// What a batch came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    /// Things done.
    done: u64,
    /// Whether the batch was full, so that there is probably more to do at once.
    full: bool,
}

impl Batch {
    /// A batch that may hold `limit` things.
    fn of(done: usize, limit: i64) -> Self {
        let done = u64::try_from(done).unwrap_or(u64::MAX);
        Self { done, full: u64::try_from(limit).is_ok_and(|limit| done >= limit) }
    }
}

/// Starts every job. They end when the program stops.
pub(crate) fn start(app: &App) {
    attend(app, route_changes::Republish);
    attend(app, route_changes::Prune);
    attend(app, shares::Reap);
    attend(app, packs::Remove);
    attend(app, packs::FindOrphans);
    attend(app, uploads::GiveUp);
    attend(app, usage::Sweep);
    attend(app, pushes::Deploy);
    attend(app, forget::Webhooks);
    attend(app, forget::Answers);
    attend(app, forget::SignIns);
    attend(app, forget::Sessions);
    attend(app, forget::Invites);
}

fn attend(app: &App, job: impl Job) {
    let cx = app.clone();
    app.tasks.spawn(async move { lease::attend(&cx, &job).await });
}
