//! Counts backlogs for the metrics. One admin counts for all, because counting scans the rows; every admin exports the
//! result.

use std::time::Duration;

use app::{App, metrics};
use db::upkeep::{backlogs, job_leases};

use super::{BatchOutcome, Job};

const SHOW_EVERY: Duration = Duration::from_secs(15);
/// The polling interval while there are no counts yet, because the database is new.
const FIRST_SHOW_EVERY: Duration = Duration::from_secs(1);
const ENDING_WITHIN: Duration = Duration::from_hours(14 * 24);

/// Exports the latest counts until the program stops, if metrics are exported.
pub(super) fn start(app: &App) {
    if app.config.admin.metrics_listen.is_none() {
        return;
    }
    let showing = app.clone();
    app.tasks.spawn(async move { showing.stopping.run_until_cancelled(export_counts(&showing)).await });
}

async fn export_counts(app: &App) {
    loop {
        let counted = db::in_time(job_leases::cursor(&app.db, CountBacklogs::NAME)).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "what waits is not known");
            None
        });
        let counted = counted.and_then(|json| serde_json::from_str(&json).ok());
        if let Some(counted) = &counted {
            metrics::backlogs(counted, app.clock.now());
        }
        let pause = if counted.is_some() { SHOW_EVERY } else { FIRST_SHOW_EVERY };
        tokio::time::sleep(pause).await;
    }
}

pub(super) struct CountBacklogs;

impl Job for CountBacklogs {
    const NAME: &'static str = "count backlogs";
    const EVERY: Duration = Duration::from_secs(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let counted = backlogs::count(&app.db, app.clock.now() + ENDING_WITHIN).await?;
        job_leases::move_cursor(&app.db, Self::NAME, Some(&serde_json::to_string(&counted)?)).await?;
        Ok(BatchOutcome::new(0, 1))
    }
}
