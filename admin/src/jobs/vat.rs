//! Checks VAT numbers again: those about which the registry was silent, those whose account is about to be charged, and every
//! other in its time. A charge waits for no registry, so it is asked before.

use std::time::Duration;

use db::billing::profiles;
use futures_util::{StreamExt as _, stream};

use super::{Batch, Job};
use crate::{
    app::App,
    vat::{Asker, RENEWALS},
    vat_checks,
};

/// Numbers of one batch.
const BATCH: i64 = 20;
/// Time after which a check that was cut off is made up for. Longer than a whole batch takes.
const LEASE: Duration = Duration::from_mins(10);

/// Time before a charge from which on the number is checked, and age of the answer that makes that needless.
const BEFORE_CHARGE: Duration = Duration::from_hours(24);

/// Has the numbers of accounts checked that are about to be charged.
pub(super) struct Hasten;

impl Job for Hasten {
    const NAME: &'static str = "hasten checks of VAT numbers";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let now = app.clock.now();
        let done = profiles::hasten(&app.db, now, now + BEFORE_CHARGE, now - BEFORE_CHARGE).await?;
        Ok(Batch { done, full: false })
    }
}

/// Checks the numbers whose time has come.
pub(super) struct Check;

impl Job for Check {
    const NAME: &'static str = "check VAT numbers";
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let now = app.clock.now();
        let due = profiles::take_due(&app.db, now, now + LEASE, BATCH).await?;
        let batch = Batch::of(due.len(), BATCH);
        let checks = stream::iter(due).map(|profile| vat_checks::check_again(app, profile, Asker::Platform));
        let checked: Vec<_> = checks.buffer_unordered(RENEWALS).collect().await;
        let mut is_silent = true;
        for one in checked {
            is_silent &= one?.is_some_and(|profile| profile.vat_failures > 0);
        }
        // A registry that answers nobody is left alone until the next turn.
        Ok(Batch { full: batch.full && !is_silent, ..batch })
    }
}
