//! Rows that have had their time: answers kept for `Idempotency-Key`s, device flows, invites, and what signing in on the
//! web leaves.

use std::time::Duration;

use db::{device_grants, gate_tickets, idempotency, invites, sessions, sign_ins, webhook_deliveries};
use domain::limits::IDEMPOTENCY_WINDOW;

use super::{Batch, Job};
use crate::app::App;

/// An expired code is told that it has expired for this long; then it is unknown.
const GRANTS_KEPT: Duration = Duration::from_hours(24);
/// How long an invite that is over can be looked at in SQL.
const INVITES_KEPT: Duration = Duration::from_hours(30 * 24);
/// The code host delivers a webhook again within three days; a copy that somebody kept is of no use for this long.
const WEBHOOKS_KEPT: Duration = Duration::from_hours(90 * 24);
const BATCH: i64 = 1_000;

/// Forgets answers that are not replayed any more.
pub(super) struct Answers;

impl Job for Answers {
    const NAME: &'static str = "forget idempotent answers";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = idempotency::delete_expired(&app.db, app.clock.now() - IDEMPOTENCY_WINDOW, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Forgets device flows that ended.
pub(super) struct SignIns;

impl Job for SignIns {
    const NAME: &'static str = "forget device flows";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = device_grants::delete_expired(&app.db, app.clock.now() - GRANTS_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Forgets sessions that are over, sign-ins that nobody came back from, and tickets that nobody redeemed.
pub(super) struct Sessions;

impl Job for Sessions {
    const NAME: &'static str = "forget sessions";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let now = app.clock.now();
        let counts = [
            sessions::delete_expired(&app.db, now, BATCH).await?,
            sign_ins::delete_expired(&app.db, now, BATCH).await?,
            gate_tickets::delete_expired(&app.db, now, BATCH).await?,
        ];
        let done = counts.iter().sum();
        Ok(Batch { done, full: counts.iter().any(|&count| count >= BATCH.unsigned_abs()) })
    }
}

/// Forgets invites that are over.
pub(super) struct Invites;

impl Job for Invites {
    const NAME: &'static str = "forget invites";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = invites::delete_expired(&app.db, app.clock.now() - INVITES_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Forgets which webhooks were acted on.
pub(super) struct Webhooks;

impl Job for Webhooks {
    const NAME: &'static str = "forget webhooks";
    const EVERY: Duration = Duration::from_mins(30);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = webhook_deliveries::delete_old(&app.db, app.clock.now() - WEBHOOKS_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}
