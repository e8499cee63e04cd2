//! Deletes rows that are no longer needed: stored responses of `Idempotency-Key`s, device flows, sessions and related
//! rows, invites, webhook deliveries, retired names with their certificates, projects that can no longer be restored,
//! settled edges.

use std::time::Duration;

use app::App;
use db::{
    audit::Actor,
    certificates,
    code_host::webhook_deliveries,
    gateway::settled_edges,
    names,
    orgs::{self, invites},
    projects::deleted,
    sign_in::{device_grants, gate_tickets, sessions, sign_ins},
    upkeep::idempotency,
};
use domain::limits::{IDEMPOTENCY_WINDOW, NAME_RETIREMENT};

use super::{BatchOutcome, Job, usage::OUTDATED_AFTER};

const GRANTS_KEPT: Duration = Duration::from_hours(24);
const INVITES_KEPT: Duration = Duration::from_hours(30 * 24);
/// How long a delivery is recognized as a repeat. The code host repeats deliveries within three days; a copy that
/// somebody else kept is refused for this long.
const WEBHOOKS_KEPT: Duration = Duration::from_hours(90 * 24);
/// How long an edge is known to be settled: until its last reservation is released for its age, plus a day for clock
/// differences.
const SETTLED_EDGES_KEPT: Duration = OUTDATED_AFTER.saturating_add(Duration::from_hours(24));
/// The rest of the longest month after [`NAME_RETIREMENT`], plus a day for clock differences.
const MONTH_KEPT: Duration = Duration::from_hours(2 * 24);
const BATCH: i64 = 1_000;

pub(super) struct DeleteStoredResponses;

impl Job for DeleteStoredResponses {
    const NAME: &'static str = "forget idempotent answers";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let forgotten = idempotency::delete_expired(&app.db, app.clock.now() - IDEMPOTENCY_WINDOW, BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(forgotten)?, BATCH))
    }
}

pub(super) struct DeleteDeviceFlows;

impl Job for DeleteDeviceFlows {
    const NAME: &'static str = "forget device flows";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let forgotten = device_grants::delete_expired(&app.db, app.clock.now() - GRANTS_KEPT, BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(forgotten)?, BATCH))
    }
}

pub(super) struct DeleteSessions;

impl Job for DeleteSessions {
    const NAME: &'static str = "forget sessions";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        let counts = [
            sessions::delete_expired(&app.db, now, BATCH).await?,
            sign_ins::delete_expired(&app.db, now, BATCH).await?,
            gate_tickets::delete_expired(&app.db, now, BATCH).await?,
        ];
        let done = counts.iter().sum();
        Ok(BatchOutcome { done, full: counts.iter().any(|&count| count >= BATCH.unsigned_abs()) })
    }
}

pub(super) struct DeleteInvites;

impl Job for DeleteInvites {
    const NAME: &'static str = "forget invites";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let forgotten = invites::delete_expired(&app.db, app.clock.now() - INVITES_KEPT, BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(forgotten)?, BATCH))
    }
}

pub(super) struct DeleteWebhookDeliveries;

impl Job for DeleteWebhookDeliveries {
    const NAME: &'static str = "forget webhooks";
    const EVERY: Duration = Duration::from_mins(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let forgotten = webhook_deliveries::delete_old(&app.db, app.clock.now() - WEBHOOKS_KEPT, BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes retired names that are free to take by now, the certificates of retired domains that are not attached again,
/// and records of organizations deleted in past months.
pub(super) struct DeleteRetiredNames;

impl Job for DeleteRetiredNames {
    const NAME: &'static str = "forget retired names";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let before = app.clock.now() - NAME_RETIREMENT;
        // Delete the certificates first: the retired names identify them.
        for (id, names) in certificates::list_orphaned(&app.db, before, BATCH).await? {
            let mut change = app.change(Actor::Platform).await?;
            if certificates::delete(&mut change, &id).await? {
                change.announce_certificate(id, names);
            }
            change.commit_without_waiting().await?;
        }
        let forgotten = names::delete_retired(&app.db, before, BATCH).await?;
        let of_orgs = orgs::delete_records(&app.db, before - MONTH_KEPT, BATCH).await?;
        let of_payers = orgs::payer::delete_former(&app.db, before - MONTH_KEPT, BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(forgotten.max(of_orgs).max(of_payers))?, BATCH))
    }
}

/// Deletes the records of deleted projects that can no longer be restored. The removal of their packs is already
/// queued.
pub(super) struct DeleteProjectRecords;

impl Job for DeleteProjectRecords {
    const NAME: &'static str = "forget deleted projects";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let forgotten = deleted::forget_expired(&app.db, app.clock.now(), BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes settled edges whose reservations would by now be released for their age, even if Redis restored one.
pub(super) struct DeleteSettledEdges;

impl Job for DeleteSettledEdges {
    const NAME: &'static str = "forget settled edges";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let forgotten = settled_edges::delete_old(&app.db, app.clock.now() - SETTLED_EDGES_KEPT, BATCH).await?;
        Ok(BatchOutcome::new(usize::try_from(forgotten)?, BATCH))
    }
}
