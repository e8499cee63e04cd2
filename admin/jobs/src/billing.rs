//! Charges what is due, polls the provider about payments, and verifies the ledger.

use std::time::Duration;

use app::{App, metrics};
use billing::{poll_due, renew_due};
use db::billing::reconciliation;

use super::{BatchOutcome, Job};

const RENEWALS: i64 = 200;
const LOOKS: i64 = 500;

/// The time after the end of a paid month by which the next one is paid or the subscription has ended: longer than all
/// attempts take.
const OVERDUE: Duration = Duration::from_hours(30 * 24);

/// Renews subscriptions, retries failed charges, and ends expired subscriptions.
pub(super) struct RenewSubscriptions;

impl Job for RenewSubscriptions {
    const NAME: &'static str = "renew subscriptions";
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        Ok(BatchOutcome::new(renew_due(app, RENEWALS).await?, RENEWALS))
    }
}

pub(super) struct PollPayments;

impl Job for PollPayments {
    const NAME: &'static str = "look at payments";
    const EVERY: Duration = Duration::from_secs(15);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let looked = poll_due(app, LOOKS).await?;
        // Export what the polls found without waiting for [`ReconcileBilling`].
        metrics::billing_differences(&[(
            reconciliation::AT_PROVIDER,
            reconciliation::count_at_provider(&app.db).await?,
        )]);
        Ok(BatchOutcome::new(looked, LOOKS))
    }
}

/// Verifies that payments, invoices and the provider's reports agree, and exports the number of differences.
pub(super) struct ReconcileBilling;

impl Job for ReconcileBilling {
    const NAME: &'static str = "reconcile billing";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let differences = reconciliation::count_differences(&app.db, app.clock.now() - OVERDUE).await?.by_kind();
        metrics::billing_differences(&differences);
        for (kind, count) in differences.into_iter().filter(|(_, count)| *count > 0) {
            tracing::error!(kind, count, "rows of billing do not agree");
        }
        Ok(BatchOutcome::new(0, 1))
    }
}
