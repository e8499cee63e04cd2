//! `admin suspend` and `admin resume`: suspends and resumes a site, or everything of an account.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use app::{App, change::Change, edges::Propagation};
use config::Config;
use db::{
    audit::{Actor, NewAuditEntry},
    projects::{
        suspended_orgs::{self, AffiliatedOrg},
        suspension::{self, NamedAccount, set_suspended},
    },
};
use domain::{
    Account, OrgId, OrgName, ProjectName, ShareName, UserId, audit::Action, changes::ChangeSubject, site::Suspension,
};
use tokio_util::sync::CancellationToken;

/// Maximum wait for heartbeats of edges before making the change: this program has just started to listen.
const LISTEN_WAIT: Duration = Duration::from_secs(5);

/// A site that was suspended or resumed.
#[derive(Debug)]
pub struct SuspendedSiteChange {
    /// The project's name.
    pub project: ProjectName,
    /// The propagation of the change.
    pub propagation: Propagation,
}

/// Suspends the site `name` for `reason`, or resumes it if `reason` is `None`. `name` is a project's name, which is
/// unique on the platform, or the three words of a share. Returns once every running edge has applied the change.
pub async fn set(config: Arc<Config>, name: &str, reason: Option<Suspension>) -> anyhow::Result<SuspendedSiteChange> {
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
            Some(project) => suspension::find_deleted_owner(&app.db, project, app.clock.now()).await?,
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

/// An account that was suspended or resumed.
#[derive(Debug)]
pub struct SuspendedAccountChange {
    /// The account.
    pub account: Account,
    /// The login of the person, or the name of the organization.
    pub name: String,
    /// The organizations that the person owns or has created, with the outcome for each; empty for an organization.
    pub orgs: Vec<(OrgName, OrgOutcome)>,
    /// The propagation of the change.
    pub propagation: Propagation,
}

/// The effect on an organization of suspending or resuming a person who owns or created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrgOutcome {
    /// It was suspended with the person.
    Suspended,
    /// It had already been suspended, and stays so independently.
    SuspendedBefore,
    /// Only the person, or others who are suspended, own it: its sites stay up, but its tokens do not work.
    Ownerless,
    /// It has this many owners who are not suspended, and keeps working.
    GoesOn(i64),
    /// Its suspension ended with the person's.
    Resumed,
    /// It was suspended by itself, or with another of its owners, and stays so.
    StaysSuspended,
}

impl std::fmt::Display for OrgOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Suspended => f.write_str("suspended with the account"),
            Self::SuspendedBefore => f.write_str("was suspended before, and stays so when the account is resumed"),
            Self::Ownerless => f.write_str(
                "has no other owner: its sites stay up, its deploy tokens and AI keys do not work; --with-orgs suspends it too",
            ),
            Self::GoesOn(1) => f.write_str("goes on for its other owner"),
            Self::GoesOn(owners) => write!(f, "goes on for its {owners} other owners"),
            Self::Resumed => f.write_str("resumed with the account"),
            Self::StaysSuspended => f.write_str("stays suspended: that was done by itself, or with another owner"),
        }
    }
}

/// A change of an account's suspension.
#[derive(Debug, Clone, Copy)]
pub enum SuspensionOrder {
    /// Suspends the account.
    Suspend {
        /// The reason.
        reason: Suspension,
        /// Whether to also suspend the organizations that nobody else owns.
        with_orgs: bool,
    },
    /// Ends the account's suspension, and that of the organizations suspended with it.
    Resume,
}

/// Suspends the account `name`, or ends its suspension. `name` is a person's login, an organization's name, or the id
/// of either. Returns once every running edge has applied the change.
pub async fn set_account(
    config: Arc<Config>,
    name: &str,
    order: SuspensionOrder,
) -> anyhow::Result<SuspendedAccountChange> {
    with_edges(config, async |app| {
        let mut named = suspension::find_named_accounts(&app.db, name).await?;
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
        let reason = match order {
            SuspensionOrder::Suspend { reason, .. } => Some(reason),
            SuspensionOrder::Resume => None,
        };
        let touched = suspension::set_account_suspended(&mut change, &account, reason, now).await?;
        change.touch(touched);
        let action = if reason.is_some() { Action::AccountSuspend } else { Action::AccountResume };
        let (entry, orgs) = match &account {
            Account::User(user) => (NewAuditEntry::for_person(action, user), set_orgs(&mut change, user, order).await?),
            Account::Org(org) => (NewAuditEntry::for_org(action, org, &name.parse()?), Vec::new()),
        };
        change.audit(match reason {
            Some(reason) => entry.with("reason", reason.as_str()),
            None => entry,
        });
        let propagation = change.commit().await?;
        Ok(SuspendedAccountChange { account, name, orgs, propagation })
    })
    .await
}

/// Suspends or resumes a person's organizations together with the person, ordered by name. Edges drop the AI keys of
/// all organizations that the person owns from their caches, because their validity depends on the owners.
async fn set_orgs(
    change: &mut Change<'_>,
    person: &UserId,
    order: SuspensionOrder,
) -> anyhow::Result<Vec<(OrgName, OrgOutcome)>> {
    let resumed = match order {
        SuspensionOrder::Suspend { .. } => Vec::new(),
        SuspensionOrder::Resume => resume_with(change, person).await?,
    };
    let mut outcomes: Vec<_> = resumed.iter().map(|name| (name.clone(), OrgOutcome::Resumed)).collect();
    let orgs = suspended_orgs::list_for_person(&mut **change, person).await?;
    for org in orgs.into_iter().filter(|org| !resumed.contains(&org.name)) {
        if org.is_owner {
            change.touch(ChangeSubject::Org(org.id.clone()));
        }
        if let Some(outcome) = set_org(change, person, &org, order).await? {
            outcomes.push((org.name, outcome));
        }
    }
    outcomes.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(outcomes)
}

/// Applies `order` to an organization of the person. Returns the outcome; `None` if there is nothing to report.
async fn set_org(
    change: &mut Change<'_>,
    person: &UserId,
    org: &AffiliatedOrg,
    order: SuspensionOrder,
) -> Result<Option<OrgOutcome>, sqlx::Error> {
    let SuspensionOrder::Suspend { reason, with_orgs } = order else {
        return Ok(org.is_suspended.then_some(OrgOutcome::StaysSuspended));
    };
    if org.is_suspended {
        return Ok(Some(OrgOutcome::SuspendedBefore));
    }
    if org.other_owners > 0 {
        return Ok(Some(OrgOutcome::GoesOn(org.other_owners)));
    }
    if !org.is_owner {
        return Ok(None);
    }
    if !with_orgs {
        return Ok(Some(OrgOutcome::Ownerless));
    }
    let now = change.now();
    let Some(touched) = suspended_orgs::suspend_with(change, person, &org.id, reason, now).await? else {
        return Ok(Some(OrgOutcome::SuspendedBefore));
    };
    change.touch(touched);
    let entry = NewAuditEntry::for_org(Action::AccountSuspend, &org.id, &org.name);
    change.audit(entry.with("reason", reason.as_str()).with("with", person.as_str()));
    Ok(Some(OrgOutcome::Suspended))
}

/// Ends the suspension of the organizations that were suspended with a person. Returns their names.
async fn resume_with(change: &mut Change<'_>, person: &UserId) -> Result<Vec<OrgName>, sqlx::Error> {
    let now = change.now();
    let orgs: Vec<(OrgId, OrgName)> = suspended_orgs::list_suspended_with(&mut **change, person).await?;
    for (id, name) in &orgs {
        let account = Account::Org(id.clone());
        let touched = suspension::set_account_suspended(change, &account, None, now).await?;
        change.touch(touched);
        change.touch(ChangeSubject::Org(id.clone()));
        change.audit(NewAuditEntry::for_org(Action::AccountResume, id, name).with("with", person.as_str()));
    }
    Ok(orgs.into_iter().map(|(_, name)| name).collect())
}

/// Runs `work` in a process that waits for the edges as the API does.
async fn with_edges<T>(config: Arc<Config>, work: impl AsyncFnOnce(&App) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let (app, edges) = App::new(config)?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    app.ownership_watch().start().await?;
    let stop = CancellationToken::new();
    let edges = tokio::spawn(edges.run(stop.clone()));
    app.edges.wait_for_heartbeats(LISTEN_WAIT).await;
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
) -> anyhow::Result<Option<SuspendedSiteChange>> {
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    let Some((project, touched)) = set_suspended(&mut change, name, share, reason, now).await? else { return Ok(None) };
    let entry = match reason {
        Some(reason) => NewAuditEntry::for_project(Action::ProjectSuspend, &project).with("reason", reason.as_str()),
        None => NewAuditEntry::for_project(Action::ProjectResume, &project),
    };
    change.audit(entry);
    change.touch(touched);
    let propagation = change.commit().await?;
    Ok(Some(SuspendedSiteChange { project: project.name, propagation }))
}
