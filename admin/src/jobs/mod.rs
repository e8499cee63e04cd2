//! Background work: reconcilers that take no input, may run twice, and do a bounded batch under a lease.
//!
//! Every admin runs every job; leases in Postgres keep them apart, so that a job runs once in its interval whatever the
//! number of admins. To add one, write a file here with an `impl Job`, and a line in [`start`].

mod agents;
mod backlogs;
mod backups;
mod bandwidth;
mod billing;
mod certificates;
mod credit;
mod deployments;
mod forget;
mod invoices;
mod lease;
mod letters;
mod packs;
pub(crate) mod pushes;
mod renewals;
mod route_changes;
mod shares;
mod store;
mod traffic;
mod uploads;
mod usage;
mod usage_keys;
mod usage_months;
mod vat;

use std::time::Duration;

use crate::app::App;

/// A reconciler.
trait Job: Send + Sync + 'static {
    /// The name of the job's lease. Renaming it would let two versions of the program run the job concurrently.
    const NAME: &'static str;
    /// The interval between two runs.
    const EVERY: Duration;
    /// The longest run, and the lease's duration, after which another admin takes a dead one's job over.
    const LEASE: Duration = Duration::from_mins(5);

    /// Does one batch. The program's stop, or the lease's end, may cut it off anywhere.
    fn run(&self, app: &App) -> impl Future<Output = anyhow::Result<Batch>> + Send;
}

/// The outcome of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    /// The number of things done.
    done: u64,
    /// Whether the batch was full, so that there is probably more to do.
    full: bool,
}

impl Batch {
    /// Makes the outcome of a batch that did `done` of at most `limit` things.
    fn of(done: usize, limit: i64) -> Self {
        let done = u64::try_from(done).unwrap_or(u64::MAX);
        Self { done, full: u64::try_from(limit).is_ok_and(|limit| done >= limit) }
    }
}

/// Starts every job. They end when the program stops.
pub(crate) fn start(app: &App) {
    attend(app, route_changes::SendAgain);
    attend(app, route_changes::Prune);
    attend(app, shares::Reap);
    attend(app, packs::Remove);
    attend(app, packs::Sweep);
    attend(app, packs::Tend);
    attend(app, store::Check);
    attend(app, store::Copy);
    attend(app, uploads::GiveUp);
    attend(app, deployments::Expire);
    attend(app, usage::Sweep);
    attend(app, usage_months::Make);
    attend(app, usage_keys::Sum);
    attend(app, traffic::Fold::<0>);
    attend(app, traffic::Fold::<1>);
    attend(app, traffic::Fold::<2>);
    attend(app, traffic::Fold::<3>);
    attend(app, traffic::Divide);
    attend(app, traffic::Roll);
    attend(app, traffic::Condense);
    attend(app, traffic::Expire);
    attend(app, traffic::Remove);
    attend(app, bandwidth::Compare);
    attend(app, bandwidth::Forget);
    attend(app, credit::Tell);
    attend(app, agents::Read);
    attend(app, invoices::Render);
    attend(app, pushes::Deploy::default());
    attend(app, pushes::FindMissed);
    certificates::start(app);
    attend(app, certificates::Tend);
    attend(app, certificates::TakeDown);
    attend(app, renewals::AskWindows);
    attend(app, renewals::Begin);
    attend(app, vat::Hasten);
    attend(app, vat::Check);
    attend(app, billing::Renew);
    attend(app, billing::Look);
    attend(app, billing::Reconcile);
    backlogs::start(app);
    attend(app, backlogs::Count);
    letters::start(app);
    attend(app, letters::SendDue::default());
    attend(app, letters::Forget);
    attend(app, forget::Webhooks);
    attend(app, forget::Answers);
    attend(app, forget::SignIns);
    attend(app, forget::Sessions);
    attend(app, forget::Invites);
    attend(app, forget::Names);
    attend(app, forget::Edges);
    attend(app, forget::DeletedProjects);
    backups::start(app);
    attend(app, backups::Forget);
}

fn attend(app: &App, job: impl Job) {
    let cx = app.clone();
    app.tasks.spawn(async move { lease::attend(&cx, &job).await });
}
