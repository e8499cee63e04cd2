//! Notifies the operator of changes that the database has lost, as noticed by edges.

use std::time::Duration;

use app::{App, metrics};
use db::edges::lost_changes::{self, SHOWN, SHOWN_FOR};
use domain::Timestamp;
use mail::notices::{Notice, notify_operator};

use super::{BatchOutcome, Job};

/// The time within which every edge reports a loss: each polls Postgres every five seconds.
const SETTLED_AFTER: Duration = Duration::from_secs(10);
const BATCH: i64 = 20;
const NAMED: usize = 100;
const SHOW_EVERY: Duration = Duration::from_secs(5);

/// Exports the number of lost changes until the program stops, if metrics are exported.
pub(super) fn start(app: &App) {
    if app.config.admin.metrics_listen.is_none() {
        return;
    }
    let showing = app.clone();
    app.tasks.spawn(async move { showing.stopping.run_until_cancelled(export_losses(&showing)).await });
}

async fn export_losses(app: &App) {
    loop {
        let since = app.clock.now() - SHOWN_FOR;
        match db::in_time(lost_changes::list_unacknowledged(&app.db, since, SHOWN)).await {
            Ok(losses) => metrics::changes_lost(losses.iter().map(|loss| loss.last_seq - loss.first_seq + 1).sum()),
            Err(error) => tracing::debug!(%error, "whether changes are lost is not known"),
        }
        tokio::time::sleep(SHOW_EVERY).await;
    }
}

pub(super) struct ReportLostChanges;

impl Job for ReportLostChanges {
    const NAME: &'static str = "tell of lost changes";
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let epochs = lost_changes::list_unnotified(&app.db, SETTLED_AFTER, BATCH).await?;
        for epoch in &epochs {
            report_loss(app, epoch, app.clock.now()).await?;
        }
        Ok(BatchOutcome::new(epochs.len(), BATCH))
    }
}

async fn report_loss(app: &App, epoch: &str, now: Timestamp) -> anyhow::Result<()> {
    let losses = lost_changes::list_unacknowledged(&app.db, now - SHOWN_FOR, SHOWN).await?;
    let mut tx = app.db.begin().await?;
    let was_told = lost_changes::mark_notified(&mut tx, epoch, now).await?;
    let loss = losses.into_iter().find(|loss| loss.epoch == epoch);
    let Some(mut loss) = loss.filter(|_| !was_told) else { return Ok(tx.commit().await?) };
    loss.subjects.truncate(NAMED);
    let subjects = loss.subjects.join(" ");
    let notice = Notice::ChangesLost {
        first: loss.first_seq,
        last: loss.last_seq,
        newest: loss.newest_seq,
        noted_at: loss.noted_at,
        subjects: loss.subjects,
    };
    let event = format!("changes_lost/{epoch}");
    notify_operator(&mut tx, app.config.mail.operator.as_ref(), &event, &notice, now).await?;
    tx.commit().await?;
    tracing::error!(
        first = loss.first_seq,
        last = loss.last_seq,
        newest = loss.newest_seq,
        noted_at = %loss.noted_at,
        subjects,
        "the database has lost changes that edges had applied; what they revoked or closed is open again \
         (deploy/runbook/changes-lost.md)"
    );
    Ok(())
}
