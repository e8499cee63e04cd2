//! Deletes rows that are no longer needed: answers stored under `Idempotency-Key`s, device flows, sessions and their
//! kin, invites, webhook deliveries, names that were given up with their certificates, projects that can be restored no more, edges of long ago.

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

/// Time for which a client with an expired device code is told so; then the code is unknown.
const GRANTS_KEPT: Duration = Duration::from_hours(24);
/// Time for which an ended invite stays in the database.
const INVITES_KEPT: Duration = Duration::from_hours(30 * 24);
/// How long a delivery is recognized. The code host repeats deliveries within three days; a copy that somebody else
/// kept is refused for this long.
const WEBHOOKS_KEPT: Duration = Duration::from_hours(90 * 24);
/// Time for which it is known that an edge is settled: beyond the time after which its last reservation is released for its age, by
/// a day for clocks that differ.
const SETTLED_EDGES_KEPT: Duration = OUTDATED_AFTER.saturating_add(Duration::from_hours(24));
/// The rest of the longest month after [`NAME_RETIREMENT`], and a day for clocks that differ.
const MONTH_KEPT: Duration = Duration::from_hours(2 * 24);
const BATCH: i64 = 1_000;

/// Deletes answers that are no longer replayed.
pub(super) struct Answers;

impl Job for Answers {
    const NAME: &'static str = "forget idempotent answers";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = idempotency::delete_expired(&app.db, app.clock.now() - IDEMPOTENCY_WINDOW, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes device flows that have ended.
pub(super) struct SignIns;

impl Job for SignIns {
    const NAME: &'static str = "forget device flows";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = device_grants::delete_expired(&app.db, app.clock.now() - GRANTS_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes ended sessions, abandoned sign-ins and tickets that were not redeemed.
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

/// Deletes invites that have ended.
pub(super) struct Invites;

impl Job for Invites {
    const NAME: &'static str = "forget invites";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = invites::delete_expired(&app.db, app.clock.now() - INVITES_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes old webhook deliveries.
pub(super) struct Webhooks;

impl Job for Webhooks {
    const NAME: &'static str = "forget webhooks";
    const EVERY: Duration = Duration::from_mins(30);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = webhook_deliveries::delete_old(&app.db, app.clock.now() - WEBHOOKS_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes retired names that anybody may take by now, with the certificates of domains among them that nobody has attached again, and what
/// is known of organizations that were deleted in former months.
pub(super) struct Names;

impl Job for Names {
    const NAME: &'static str = "forget retired names";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let before = app.clock.now() - NAME_RETIREMENT;
        // First: the names say which certificates these are.
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

/// Deletes what was kept of deleted projects that can be restored no more. Their packs' removals are queued already.
pub(super) struct DeletedProjects;

impl Job for DeletedProjects {
    const NAME: &'static str = "forget deleted projects";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = deleted::forget(&app.db, app.clock.now(), BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}

/// Deletes settled edges whose reservations are all released for their age, should Redis bring one back.
pub(super) struct Edges;

impl Job for Edges {
    const NAME: &'static str = "forget settled edges";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let forgotten = settled_edges::delete_old(&app.db, app.clock.now() - SETTLED_EDGES_KEPT, BATCH).await?;
        Ok(Batch::of(usize::try_from(forgotten)?, BATCH))
    }
}
