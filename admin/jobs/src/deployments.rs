//! Expires the oldest deployments beyond the number that their owner's plan keeps, and removes their packs. Deployments
//! kept by a larger plan that was paid for remain when the subscription ends.

use std::time::Duration;

use app::App;
use db::{
    audit::{Actor, NewAuditEntry},
    billing::plan,
    projects::Project,
    upkeep::{deployments, job_leases},
};
use domain::{ProjectId, audit::Action};

use super::{BatchOutcome, Job};

const PROJECTS: i64 = 5_000;
/// The deployments of one project that expire in one transaction: few, because every other change waits for its last
/// steps.
const BATCH: i64 = 50;
const RUN: usize = 2_000;

/// Expires old deployments, but never the live one or one created or served in the last days. A run checks some
/// projects, and the next run continues after them.
pub(super) struct ExpireDeployments;

impl Job for ExpireDeployments {
    const NAME: &'static str = "expire deployments";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let least = app.plans().min_deployments();
        // A cursor that does not parse restarts the round.
        let after: Option<ProjectId> =
            job_leases::cursor(&app.db, Self::NAME).await?.and_then(|cursor| cursor.parse().ok());
        let now = app.clock.now();
        let (last, projects) = deployments::crowded_projects(&app.db, least, after.as_ref(), PROJECTS, now).await?;
        let (mut done, mut before) = (0, after.as_ref());
        for project in &projects {
            done += expire_surplus(app, project).await?;
            if done >= RUN {
                // This project may have more.
                job_leases::move_cursor(&app.db, Self::NAME, before.map(ProjectId::as_str)).await?;
                return Ok(BatchOutcome { done: done as u64, full: true });
            }
            before = Some(&project.id);
        }
        job_leases::move_cursor(&app.db, Self::NAME, last.as_ref().map(ProjectId::as_str)).await?;
        Ok(BatchOutcome { done: done as u64, full: last.is_some() })
    }
}

async fn expire_surplus(app: &App, project: &Project) -> anyhow::Result<usize> {
    let mut done = 0;
    while done < RUN {
        let mut change = app.change(Actor::Platform).await?;
        let now = change.now();
        let kept = plan::kept_deployments(&mut change, app.plans(), &project.owner).await?;
        let (expired, touched) = deployments::expire(&mut change, project, kept, BATCH, now).await?;
        if expired.is_empty() {
            break;
        }
        done += expired.len();
        let ids: Vec<&str> = expired.iter().map(domain::DeploymentId::as_str).collect();
        change.audit(NewAuditEntry::for_project(Action::DeploymentExpire, project).with("deployments", ids));
        change.touch(touched);
        change.commit_without_waiting().await?;
    }
    Ok(done)
}
