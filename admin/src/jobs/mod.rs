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
pub(crate) mod lost_changes;
mod packs;
pub(crate) mod pushes;
mod renewals;
mod route_changes;
mod shares;
mod store;
mod traffic;
mod uploads;
mod usage;
mod usage_export;
mod usage_keys;
mod usage_months;
mod vat;

use std::time::Duration;

use config::Config;

use crate::app::{App, LiveApp};

/// A reconciler.
trait Job: Send + Sync + 'static {
    /// The name of the job's lease. Renaming it would let two versions of the program run the job concurrently.
    const NAME: &'static str;
    /// The interval between two runs.
    const EVERY: Duration;
    /// The longest run, and the lease's duration, after which another admin takes a dead one's job over.
    const LEASE: Duration = Duration::from_mins(5);

    /// The interval between two runs with this configuration: [`EVERY`](Self::EVERY), unless the configuration says another.
    fn every(_: &Config) -> Duration {
        Self::EVERY
    }

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
pub(crate) fn start(live: &LiveApp) {
    let app = &*live.now();
    attend(live, route_changes::SendAgain);
    attend(live, route_changes::Prune);
    attend(live, shares::Reap);
    attend(live, packs::Remove);
    attend(live, packs::Sweep);
    attend(live, packs::Tend);
    attend(live, store::Check);
    attend(live, store::Copy);
    attend(live, uploads::GiveUp);
    attend(live, deployments::Expire);
    attend(live, usage::Sweep);
    attend(live, usage_months::Make);
    attend(live, usage_keys::Sum);
    attend(live, usage_export::SendRecorded);
    attend(live, traffic::Fold::<0>);
    attend(live, traffic::Fold::<1>);
    attend(live, traffic::Fold::<2>);
    attend(live, traffic::Fold::<3>);
    attend(live, traffic::Divide);
    attend(live, traffic::Roll);
    attend(live, traffic::Condense);
    attend(live, traffic::Expire);
    attend(live, traffic::Remove);
    attend(live, bandwidth::Compare);
    attend(live, bandwidth::Forget);
    attend(live, credit::Tell);
    attend(live, agents::Read);
    attend(live, invoices::Render);
    attend(live, pushes::Deploy::default());
    attend(live, pushes::FindMissed);
    certificates::start(live);
    attend(live, certificates::Tend);
    attend(live, certificates::TakeDown);
    attend(live, renewals::AskWindows);
    attend(live, renewals::Begin);
    attend(live, vat::Hasten);
    attend(live, vat::Check);
    attend(live, billing::Renew);
    attend(live, billing::Look);
    attend(live, billing::Reconcile);
    lost_changes::start(app);
    attend(live, lost_changes::Tell);
    backlogs::start(app);
    attend(live, backlogs::Count);
    letters::start(app);
    attend(live, letters::SendDue::default());
    attend(live, letters::Forget);
    attend(live, forget::Webhooks);
    attend(live, forget::Answers);
    attend(live, forget::SignIns);
    attend(live, forget::Sessions);
    attend(live, forget::Invites);
    attend(live, forget::Names);
    attend(live, forget::Edges);
    attend(live, forget::DeletedProjects);
    backups::start(app);
    attend(live, backups::Forget);
}

fn attend(live: &LiveApp, job: impl Job) {
    let cx = live.clone();
    live.now().tasks.spawn(async move { lease::attend(&cx, &job).await });
}
