//! Deployments that their owner's plan does not keep: the oldest beyond its number expire, and their packs are removed. What a
//! larger plan kept that was paid for stays when the subscription ends.

use std::time::Duration;

use db::{
    audit::{Actor, Entry},
    billing::plan,
    projects::Project,
    upkeep::deployments,
};
use domain::audit::Action;

use super::{Batch, Job};
use crate::app::App;

/// Projects looked at in one statement.
const PROJECTS: i64 = 100;
/// Deployments of one project that expire in one transaction: few, because every other change waits for its last steps.
const BATCH: i64 = 50;
/// Most deployments that expire in one run.
const RUN: usize = 2_000;

/// Expires old deployments. Never the live one, nor one that was made or served in the last days.
pub(super) struct Expire;

impl Job for Expire {
    const NAME: &'static str = "expire deployments";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let least = app.plans().least_deployments();
        let (mut after, mut done) = (None, 0);
        loop {
            let projects =
                deployments::crowded_projects(&app.db, least, after.as_ref(), PROJECTS, app.clock.now()).await?;
            for project in &projects {
                done += expire(app, project).await?;
                if done >= RUN {
                    return Ok(Batch { done: done as u64, full: true });
                }
            }
            match projects.last() {
                Some(last) => after = Some(last.id.clone()),
                None => return Ok(Batch { done: done as u64, full: false }),
            }
        }
    }
}

/// Expires deployments of one project until none is left that should, and returns their number.
async fn expire(app: &App, project: &Project) -> anyhow::Result<usize> {
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
        change.audit(Entry::of_project(Action::DeploymentExpire, project).with("deployments", ids));
        change.touch(touched);
        change.commit_without_waiting().await?;
    }
    Ok(done)
}
