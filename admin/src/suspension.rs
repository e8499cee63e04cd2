//! `admin suspend` and `admin resume`: the operator takes a site down, and lets it be served again.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use config::Config;
use db::{
    audit::{Actor, Entry},
    projects::suspension::set_suspended,
};
use domain::{ProjectName, ShareName, audit::Action, site::Suspension};
use tokio_util::sync::CancellationToken;

use crate::{app::App, edges::Propagation};

/// How long the edges are waited for before the change is made: this program has just begun to listen.
const LISTEN_WAIT: Duration = Duration::from_secs(5);

/// A site whose state the operator has changed.
#[derive(Debug)]
pub struct Changed {
    /// The name of its project.
    pub project: ProjectName,
    /// How far the edges have got with it.
    pub propagation: Propagation,
}

/// Suspends the site called `name` for `reason`, or resumes it when there is none. `name` is that of a project, of which
/// there is one on the whole platform, or the three words of a share. Returns once every edge that is up has applied it.
pub async fn set(config: Arc<Config>, name: &str, reason: Option<Suspension>) -> anyhow::Result<Changed> {
    let (project, share): (Option<ProjectName>, Option<ShareName>) = (name.parse().ok(), name.parse().ok());
    anyhow::ensure!(
        project.is_some() || share.is_some(),
        "`{name}` is neither the name of a project nor the three words of a share"
    );
    let (app, edges) = App::new(config)?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    app.watch().start().await?;
    let stop = CancellationToken::new();
    let edges = tokio::spawn(edges.run(stop.clone()));
    app.edges.listen(LISTEN_WAIT).await;
    let changed = change(&app, project.as_ref(), share.as_ref(), reason).await;
    stop.cancel();
    edges.await?;
    changed?.with_context(|| format!("there is no project or share called {name}"))
}

async fn change(
    app: &App,
    name: Option<&ProjectName>,
    share: Option<&ShareName>,
    reason: Option<Suspension>,
) -> anyhow::Result<Option<Changed>> {
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    let Some((project, touched)) = set_suspended(&mut change, name, share, reason, now).await? else { return Ok(None) };
    let entry = match reason {
        Some(reason) => Entry::of_project(Action::ProjectSuspend, &project).with("reason", reason.as_str()),
        None => Entry::of_project(Action::ProjectResume, &project),
    };
    change.audit(entry);
    change.touch(touched);
    let propagation = change.commit().await?;
    Ok(Some(Changed { project: project.name, propagation }))
}
