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
pub mod pushes;
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

use app::{App, LiveApp};
use config::Config;

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
    fn run(&self, app: &App) -> impl Future<Output = anyhow::Result<BatchOutcome>> + Send;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchOutcome {
    done: u64,
    /// Whether the batch was full, so that there is probably more to do.
    full: bool,
}

impl BatchOutcome {
    fn new(done: usize, limit: i64) -> Self {
        let done = u64::try_from(done).unwrap_or(u64::MAX);
        Self { done, full: u64::try_from(limit).is_ok_and(|limit| done >= limit) }
    }
}

/// Spawns a task for each job, and those that accompany jobs, such as exporters of metrics. They run until the
/// program stops.
pub fn start(live: &LiveApp) {
    let app = &*live.now();
    attend(live, route_changes::ResendChanges);
    attend(live, route_changes::PruneChanges);
    attend(live, shares::RemoveExpiredShares);
    attend(live, packs::TrashPacks);
    attend(live, packs::SweepStore);
    attend(live, packs::TendTrash);
    attend(live, store::CheckStore);
    attend(live, store::CopyPacks);
    attend(live, uploads::FailStuckUploads);
    attend(live, deployments::ExpireDeployments);
    attend(live, usage::SettleDeadEdges);
    attend(live, usage_months::AddUsageMonths);
    attend(live, usage_keys::SumKeyUsage);
    attend(live, usage_export::ExportUsage);
    attend(live, traffic::FoldTraffic::<0>);
    attend(live, traffic::FoldTraffic::<1>);
    attend(live, traffic::FoldTraffic::<2>);
    attend(live, traffic::FoldTraffic::<3>);
    attend(live, traffic::AddPartitions);
    attend(live, traffic::RollHoursIntoDays);
    attend(live, traffic::CondenseMonths);
    attend(live, traffic::ExpireTraffic);
    attend(live, traffic::DeleteProjectTraffic);
    attend(live, bandwidth::CompareBandwidth);
    attend(live, bandwidth::DeleteBandwidthLevels);
    attend(live, credit::NotifyCreditUsed);
    attend(live, agents::FetchAgentLists);
    attend(live, invoices::RenderInvoices);
    attend(live, pushes::DeployPushes::default());
    attend(live, pushes::FindMissedPushes);
    certificates::start(live);
    attend(live, certificates::MaintainOrders);
    attend(live, certificates::RemoveResponses);
    attend(live, renewals::FetchRenewalWindows);
    attend(live, renewals::StartRenewals);
    attend(live, vat::ScheduleVatChecks);
    attend(live, vat::RecheckVatNumbers);
    attend(live, billing::RenewSubscriptions);
    attend(live, billing::PollPayments);
    attend(live, billing::ReconcileBilling);
    lost_changes::start(app);
    attend(live, lost_changes::ReportLostChanges);
    backlogs::start(app);
    attend(live, backlogs::CountBacklogs);
    letters::start(app);
    attend(live, letters::SendLetters::default());
    attend(live, letters::DeleteLetters);
    attend(live, forget::DeleteWebhookDeliveries);
    attend(live, forget::DeleteStoredResponses);
    attend(live, forget::DeleteDeviceFlows);
    attend(live, forget::DeleteSessions);
    attend(live, forget::DeleteInvites);
    attend(live, forget::DeleteRetiredNames);
    attend(live, forget::DeleteSettledEdges);
    attend(live, forget::DeleteProjectRecords);
    backups::start(app);
    attend(live, backups::DeleteBackupRecords);
}

fn attend(live: &LiveApp, job: impl Job) {
    let cx = live.clone();
    live.now().tasks.spawn(async move { lease::run_job(&cx, &job).await });
}
