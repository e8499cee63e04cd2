//! Deletes rows that are no longer needed: stored responses of `Idempotency-Key`s, device flows, sessions and related
//! rows, invites, webhook deliveries, retired names with their certificates, projects that can no longer be restored,
//! settled edges.

use std::time::Duration;

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

use super::{Batch, Job, usage::OUTDATED_AFTER};
use crate::app::App;

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

pub(super) struct Answers;

impl Job for Answers {
    const NAME: &'static str = "forget idempotent answers";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = idempotency::delete_expired(&app.db, app.clock.now() - IDEMPOTENCY_WINDOW, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

pub(super) struct SignIns;

impl Job for SignIns {
    const NAME: &'static str = "forget device flows";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = device_grants::delete_expired(&app.db, app.clock.now() - GRANTS_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

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

pub(super) struct Invites;

impl Job for Invites {
    const NAME: &'static str = "forget invites";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = invites::delete_expired(&app.db, app.clock.now() - INVITES_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

pub(super) struct Webhooks;

impl Job for Webhooks {
    const NAME: &'static str = "forget webhooks";
    const EVERY: Duration = Duration::from_mins(30);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = webhook_deliveries::delete_old(&app.db, app.clock.now() - WEBHOOKS_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes retired names that are free to take by now, the certificates of retired domains that are not attached again,
/// and records of organizations deleted in past months.
pub(super) struct Names;

impl Job for Names {
    const NAME: &'static str = "forget retired names";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let before = app.clock.now() - NAME_RETIREMENT;
        // Delete the certificates first: the retired names identify them.
        for (id, names) in certificates::of_given_up_domains(&app.db, before, BATCH).await? {
            let mut change = app.change(Actor::Platform).await?;
            if certificates::delete(&mut change, &id).await? {
                change.announce(id, names);
            }
            change.commit_without_waiting().await?;
        }
        let forgotten = names::delete_retired(&app.db, before, BATCH).await?;
        let of_orgs = orgs::forget_deleted(&app.db, before - MONTH_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten.max(of_orgs))?, BATCH))
    }
}

/// Deletes the records of deleted projects that can no longer be restored. The removal of their packs is already
/// queued.
pub(super) struct DeletedProjects;

impl Job for DeletedProjects {
    const NAME: &'static str = "forget deleted projects";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = deleted::forget(&app.db, app.clock.now(), BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes settled edges whose reservations would by now be released for their age, even if Redis restored one.
pub(super) struct Edges;

impl Job for Edges {
    const NAME: &'static str = "forget settled edges";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = settled_edges::delete_old(&app.db, app.clock.now() - SETTLED_EDGES_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}
