//! Charges what is due, asks the provider about payments, and proves that the ledger is right.

use std::time::Duration;

use db::billing::reconciliation;

use super::{Batch, Job};
use crate::{
    app::App,
    billing::{look_due, renew_due},
    metrics,
};

/// Subscriptions whose charges are recorded in one transaction.
const RENEWALS: i64 = 200;
/// Payments that are looked at in one batch.
const LOOKS: i64 = 500;

/// Time after the end of a paid month by which its successor was paid, or the subscription ended: longer than all attempts.
const OVERDUE: Duration = Duration::from_hours(30 * 24);

/// Renews subscriptions, tries failed charges again, and ends what is over.
pub(super) struct Renew;

impl Job for Renew {
    const NAME: &'static str = "renew subscriptions";
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        Ok(Batch::of(renew_due(app, RENEWALS).await?, RENEWALS))
    }
}

/// Asks the provider about payments.
pub(super) struct Look;

impl Job for Look {
    const NAME: &'static str = "look at payments";
    const EVERY: Duration = Duration::from_secs(15);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let looked = look_due(app, LOOKS).await?;
        // What a look has found shows without waiting for the proof.
        metrics::billing_differences(&[(reconciliation::AT_PROVIDER, reconciliation::at_provider(&app.db).await?)]);
        Ok(Batch::of(looked, LOOKS))
    }
}

/// Proves that payments, invoices and what the provider said agree, and shows how many do not.
pub(super) struct Reconcile;

impl Job for Reconcile {
    const NAME: &'static str = "reconcile billing";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let differences = reconciliation::differences(&app.db, app.clock.now() - OVERDUE).await?.by_kind();
        metrics::billing_differences(&differences);
        for (kind, count) in differences.into_iter().filter(|(_, count)| *count > 0) {
            tracing::error!(kind, count, "rows of billing do not agree");
        }
        Ok(Batch::of(0, 1))
    }
}
