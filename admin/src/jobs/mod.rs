//! Background work: reconcilers that take no input, may run twice, and process a bounded batch under a lease.
//!
//! Every admin runs every job; leases in Postgres keep them apart, so that a job runs once per interval with any number
//! of admins. To add one, write a file here with an `impl Job`, and a line in [`start`].

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

trait Job: Send + Sync + 'static {
    /// The name of the job's lease. If it were renamed, two versions of the program would run the job concurrently.
    const NAME: &'static str;
    const EVERY: Duration;
    /// The longest run, and the duration of the lease, after which another admin takes over the job of a dead one.
    const LEASE: Duration = Duration::from_mins(5);

    /// Returns the interval between two runs: [`EVERY`](Self::EVERY), unless the configuration overrides it.
    fn every(_: &Config) -> Duration {
        Self::EVERY
    }

    /// Processes one batch. It may be interrupted anywhere, when the program stops or the lease expires.
    fn run(&self, app: &App) -> impl Future<Output = anyhow::Result<Batch>> + Send;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    done: u64,
    /// Whether the batch was full, so that there is probably more to do.
    full: bool,
}

impl Batch {
    fn of(done: usize, limit: i64) -> Self {
        let done = u64::try_from(done).unwrap_or(u64::MAX);
        Self { done, full: u64::try_from(limit).is_ok_and(|limit| done >= limit) }
    }
}

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
