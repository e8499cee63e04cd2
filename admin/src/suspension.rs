//! `admin suspend` and `admin resume`: the operator takes down a site, or all that an account has, and lets it be served again.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use config::Config;
use db::{
    audit::{Actor, Entry},
    projects::suspension::{self, NamedAccount, set_suspended},
};
use domain::{Account, ProjectName, ShareName, audit::Action, site::Suspension};
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
    with_edges(config, async |app| {
        if let Some(changed) = change(app, project.as_ref(), share.as_ref(), reason).await? {
            return Ok(changed);
        }
        let deleted = match &project {
            Some(project) => suspension::owner_of_deleted(&app.db, project, app.clock.now()).await?,
            None => None,
        };
        anyhow::bail!(match deleted {
            None => format!("there is no project or share called {name}"),
            Some(owner) => format!(
                "there is no project or share called {name}; one was deleted, and its owner can restore it, unless their \
                 account is suspended: --account {owner}"
            ),
        })
    })
    .await
}

/// An account whose state the operator has changed.
#[derive(Debug)]
pub struct ChangedAccount {
    /// The account, by its id.
    pub account: Account,
    /// The login of the person, or the name of the organization.
    pub name: String,
    /// How far the edges have got with it.
    pub propagation: Propagation,
}

/// Suspends the account called `name` for `reason`, or ends its suspension when there is none. `name` is a person's login, an
/// organization's name, or the id of either. Returns once every edge that is up has applied it.
pub async fn set_account(
    config: Arc<Config>,
    name: &str,
    reason: Option<Suspension>,
) -> anyhow::Result<ChangedAccount> {
    with_edges(config, async |app| {
        let mut named = suspension::named(&app.db, name).await?;
        let ids: Vec<&str> = named.iter().map(|found| found.account.as_str()).collect();
        anyhow::ensure!(
            named.len() < 2,
            "more than one account is called {name}; say which by its id: {}",
            ids.join(", ")
        );
        let Some(NamedAccount { account, name }) = named.pop() else {
            anyhow::bail!("there is no person or organization called {name}");
        };
        let mut change = app.change(Actor::Platform).await?;
        let now = change.now();
        let touched = suspension::set_account_suspended(&mut change, &account, reason, now).await?;
        let action = if reason.is_some() { Action::AccountSuspend } else { Action::AccountResume };
        let entry = match &account {
            Account::User(user) => Entry::of_person(action, user),
            Account::Org(org) => Entry::of_org(action, org, &name.parse()?),
        };
        change.audit(match reason {
            Some(reason) => entry.with("reason", reason.as_str()),
            None => entry,
        });
        change.touch(touched);
        let propagation = change.commit().await?;
        Ok(ChangedAccount { account, name, propagation })
    })
    .await
}

/// Does `work` in a program that waits for the edges as the API does.
async fn with_edges<T>(config: Arc<Config>, work: impl AsyncFnOnce(&App) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let (app, edges) = App::new(config)?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    app.watch().start().await?;
    let stop = CancellationToken::new();
    let edges = tokio::spawn(edges.run(stop.clone()));
    app.edges.listen(LISTEN_WAIT).await;
    let done = work(&app).await;
    stop.cancel();
    edges.await?;
    done
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
