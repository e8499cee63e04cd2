//! Rechecks VAT numbers: those for which the registry did not respond, those whose account is about to be charged, and
//! all others in due time. A charge does not wait for the registry, so numbers are checked before it.

use std::time::Duration;

use app::App;
use billing::vat_checks;
use db::billing::profiles;
use futures_util::{StreamExt as _, stream};
use vat::{CheckQueue, RECHECK_CALLS};

use super::{BatchOutcome, Job};

const BATCH: i64 = 20;
/// The lease of a check, longer than a whole batch takes. An interrupted check is repeated afterwards.
const LEASE: Duration = Duration::from_mins(10);

/// How long before a charge a number is checked, and the age up to which an earlier result suffices.
const BEFORE_CHARGE: Duration = Duration::from_hours(24);

/// Schedules checks for accounts that are about to be charged.
pub(super) struct ScheduleVatChecks;

impl Job for ScheduleVatChecks {
    const NAME: &'static str = "hasten checks of VAT numbers";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        let done = profiles::make_checks_due(&app.db, now, now + BEFORE_CHARGE, now - BEFORE_CHARGE).await?;
        Ok(BatchOutcome { done, full: false })
    }
}

pub(super) struct RecheckVatNumbers;

impl Job for RecheckVatNumbers {
    const NAME: &'static str = "check VAT numbers";
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        let due = profiles::take_due(&app.db, now, now + LEASE, BATCH).await?;
        let batch = BatchOutcome::new(due.len(), BATCH);
        let checks = stream::iter(due).map(|profile| vat_checks::check_again(app, profile, CheckQueue::Platform));
        let checked: Vec<_> = checks.buffer_unordered(RECHECK_CALLS).collect().await;
        let mut is_silent = true;
        for one in checked {
            is_silent &= one?.is_some_and(|profile| profile.vat_failures > 0);
        }
        // If the registry responds to no check, the next batch waits for the next run.
        Ok(BatchOutcome { full: batch.full && !is_silent, ..batch })
    }
}
