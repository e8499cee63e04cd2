//! Exports the age of the last backup, so that an alert can fire if there is none. Every admin does this.

use std::time::Duration;

use app::{App, metrics};
use db::upkeep::backups;

use super::{BatchOutcome, Job};

const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The age at which the record of a backup is deleted. The backup itself is not touched.
const NOTED_FOR: Duration = Duration::from_hours(24 * 400);

pub(super) fn start(app: &App) {
    let watching = app.clone();
    app.tasks.spawn(async move { watching.stopping.run_until_cancelled(export_last_backup(&watching)).await });
}

async fn export_last_backup(app: &App) {
    loop {
        match db::in_time(backups::last(&app.db)).await {
            Ok(last) => metrics::last_backup(last),
            Err(error) => tracing::debug!(%error, "the last backup could not be looked for"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub(super) struct DeleteBackupRecords;

impl Job for DeleteBackupRecords {
    const NAME: &'static str = "forget backups";
    const EVERY: Duration = Duration::from_hours(24);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let done = backups::delete_records(&app.db, app.clock.now() - NOTED_FOR).await?;
        Ok(BatchOutcome { done, full: false })
    }
}
