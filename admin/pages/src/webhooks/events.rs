//! The code host's events: their JSON, and the changes that each makes. Unknown events and unknown fields are ignored.

use admin_http::error::ApiError;
use app::{
    change::Change,
    events::{self, KIND_PUSH},
};
use db::{
    audit::{Actor, NewAuditEntry},
    code_host::{
        grants, installations,
        repo_deploys::{self, Push},
        repo_links::{self, EndedLink},
    },
    projects,
    sign_in::users,
};
use domain::{
    audit::Action,
    line,
    repo::{CommitSha, RepoName, UNNAMED_PUSHER},
};
use serde::{Deserialize, de::DeserializeOwned};
use sqlx::PgConnection;

/// The maximum stored length of a pusher's name, in characters.
const PUSHER_CHARS: usize = 100;
/// The maximum number of projects whose people are notified of one push.
const PROJECTS_TOLD: i64 = 100;
const BRANCHES: &str = "refs/heads/";

/// A parsed event. Kinds that change nothing here are [`CodeHostEvent::Other`].
pub(super) enum CodeHostEvent {
    Push(PushEvent),
    Installation(InstallationEvent),
    InstallationRepositories(RepositoriesEvent),
    InstallationTarget(TargetEvent),
    Repository(RepositoryEvent),
    Authorization(AuthorizationEvent),
    Other,
}

#[derive(Deserialize)]
pub(super) struct PushEvent {
    r#ref: String,
    after: String,
    #[serde(default)]
    deleted: bool,
    repository: PushedRepository,
    installation: Option<RepositoryRef>,
    pusher: Option<EventPusher>,
    sender: Option<EventSender>,
}

#[derive(Deserialize)]
pub(super) struct InstallationEvent {
    action: String,
    installation: RepositoryRef,
    sender: Option<EventSender>,
}

#[derive(Deserialize)]
pub(super) struct RepositoriesEvent {
    action: String,
    installation: RepositoryRef,
    #[serde(default)]
    repositories_removed: Vec<RepositoryRef>,
    sender: Option<EventSender>,
}

#[derive(Deserialize)]
pub(super) struct TargetEvent {
    action: String,
    installation: RepositoryRef,
    account: InstalledAccount,
    changes: Option<TargetChanges>,
}

#[derive(Deserialize)]
struct InstalledAccount {
    id: u64,
    /// An enterprise has a slug instead of a login.
    login: Option<String>,
    avatar_url: Option<String>,
}

#[derive(Deserialize)]
struct TargetChanges {
    login: Option<RenamedFrom>,
}

#[derive(Deserialize)]
struct RenamedFrom {
    from: String,
}

#[derive(Deserialize)]
pub(super) struct AuthorizationEvent {
    action: String,
    sender: InstallationRef,
}

#[derive(Deserialize)]
struct InstallationRef {
    id: u64,
}

#[derive(Deserialize)]
pub(super) struct RepositoryEvent {
    action: String,
    repository: PushedRepository,
    installation: Option<RepositoryRef>,
    sender: Option<EventSender>,
}

#[derive(Deserialize)]
struct PushedRepository {
    id: i64,
    full_name: String,
}

#[derive(Deserialize)]
struct RepositoryRef {
    id: i64,
}

#[derive(Deserialize)]
struct EventPusher {
    name: String,
}

#[derive(Deserialize)]
struct EventSender {
    login: String,
}

/// Parses the body of an event of this kind.
pub(super) fn parse_event(kind: &str, body: &[u8]) -> Result<CodeHostEvent, ApiError> {
    Ok(match kind {
        "push" => CodeHostEvent::Push(parse(body)?),
        "installation" => CodeHostEvent::Installation(parse(body)?),
        "installation_repositories" => CodeHostEvent::InstallationRepositories(parse(body)?),
        "installation_target" => CodeHostEvent::InstallationTarget(parse(body)?),
        "repository" => CodeHostEvent::Repository(parse(body)?),
        "github_app_authorization" => CodeHostEvent::Authorization(parse(body)?),
        // Includes `ping`, which only needs a success response.
        _ => CodeHostEvent::Other,
    })
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        tracing::warn!(kind = ?error.classify(), "a signed webhook could not be read");
        ApiError::invalid("The body is not this event's JSON; the webhook's content type must be application/json.")
    })
}

impl CodeHostEvent {
    /// Returns the account at the code host that the audit log records as the author of the event's changes.
    pub(super) fn actor(&self) -> Actor<'_> {
        let sender = match self {
            Self::Installation(event) => event.sender.as_ref(),
            Self::InstallationRepositories(event) => event.sender.as_ref(),
            Self::Repository(event) => event.sender.as_ref(),
            Self::Push(_) | Self::InstallationTarget(_) | Self::Authorization(_) | Self::Other => None,
        };
        Actor::CodeHost(sender.map(|sender| &*sender.login))
    }
}

/// Applies the event, and returns how many projects it causes to deploy.
pub(super) async fn apply(change: &mut Change<'_>, event: &CodeHostEvent) -> Result<u64, sqlx::Error> {
    let now = change.now();
    match event {
        CodeHostEvent::Push(event) => return push(change, event).await,
        CodeHostEvent::Installation(InstallationEvent { action, installation, .. }) => match action.as_str() {
            "deleted" => uninstall(change, installation.id).await?,
            "suspend" => installations::set_suspended(change, installation.id, Some(now)).await?,
            "unsuspend" => installations::set_suspended(change, installation.id, None).await?,
            _ => {}
        },
        CodeHostEvent::InstallationRepositories(event) if event.action == "removed" => {
            let removed: Vec<i64> = event.repositories_removed.iter().map(|repo| repo.id).collect();
            let ended = repo_links::end_links(change, Some(event.installation.id), None, Some(&removed)).await?;
            audit(change, &ended);
        }
        CodeHostEvent::Repository(event) => {
            match (event.action.as_str(), event.repository.full_name.parse::<RepoName>()) {
                ("deleted", _) => {
                    let ended = repo_links::end_links(change, None, None, Some(&[event.repository.id])).await?;
                    audit(change, &ended);
                }
                (action, Ok(name)) => {
                    repo_links::rename(change, event.repository.id, &name).await?;
                    if let ("transferred", Some(installation)) = (action, &event.installation) {
                        let ended = repo_links::transfer(change, event.repository.id, installation.id).await?;
                        audit(change, &ended);
                    }
                }
                _ => {}
            }
        }
        CodeHostEvent::InstallationTarget(event) if event.action == "renamed" => rename_account(change, event).await?,
        // The person revoked the authorization, so the tokens no longer work.
        CodeHostEvent::Authorization(event) if event.action == "revoked" => {
            grants::revoke(change, &event.sender.id.to_string()).await?;
        }
        CodeHostEvent::InstallationRepositories(_)
        | CodeHostEvent::InstallationTarget(_)
        | CodeHostEvent::Authorization(_)
        | CodeHostEvent::Other => {}
    }
    Ok(0)
}

async fn push(change: &mut Change<'_>, event: &PushEvent) -> Result<u64, sqlx::Error> {
    // This is the repository's current name at the code host.
    if let Ok(name) = event.repository.full_name.parse() {
        repo_links::rename(change, event.repository.id, &name).await?;
    }
    let pushed = event.r#ref.strip_prefix(BRANCHES).zip(event.after.parse::<CommitSha>().ok());
    // Otherwise a tag, or a deleted branch, whose last deployment stays.
    let Some((branch, sha)) = pushed.filter(|(_, sha)| !event.deleted && !sha.is_null()) else { return Ok(0) };
    let pusher = event.pusher.as_ref().map(|pusher| &*pusher.name);
    let pusher = pusher.or(event.sender.as_ref().map(|sender| &*sender.login)).unwrap_or(UNNAMED_PUSHER);
    let pusher = line::strip_hidden(pusher, PUSHER_CHARS);
    let push = Push {
        installation: event.installation.as_ref().map(|installation| installation.id),
        repo_id: event.repository.id,
        branch,
        sha: &sha,
        pusher: &pusher,
    };
    let now = change.now();
    let queued = repo_deploys::queue(change, &push, now).await?;
    for project in projects::list_by_push(&mut **change, push.repo_id, branch, &sha, PROJECTS_TOLD).await? {
        let mut event = events::project_event(KIND_PUSH, &project, Some(sha.as_str()), Some(pusher.as_str()), now);
        event.detail.insert("state".to_owned(), "queued".into());
        change.publish(event);
    }
    Ok(queued)
}

/// Renames an account: in its installation, in its repositories' names, and in the corresponding person.
async fn rename_account(conn: &mut PgConnection, event: &TargetEvent) -> Result<(), sqlx::Error> {
    let InstalledAccount { id, login, avatar_url } = &event.account;
    // Accept only a login that can be the owner part of a repository's name.
    let Some(login) = login.as_deref().filter(|login| format!("{login}/x").parse::<RepoName>().is_ok()) else {
        return Ok(());
    };
    let avatar = avatar_url.as_deref().filter(|url| url.starts_with("https://"));
    installations::rename(conn, event.installation.id, login, avatar).await?;
    users::rename(conn, &id.to_string(), login).await?;
    if let Some(RenamedFrom { from }) = event.changes.as_ref().and_then(|changes| changes.login.as_ref()) {
        repo_links::rename_owner(conn, event.installation.id, from, login).await?;
    }
    Ok(())
}

async fn uninstall(change: &mut Change<'_>, installation: i64) -> Result<(), sqlx::Error> {
    let ended = repo_links::end_links(change, Some(installation), None, None).await?;
    audit(change, &ended);
    if let Some((id, name)) = installations::delete(change, installation).await? {
        let entry = NewAuditEntry::for_org(Action::InstallationUnshare, &id, &name).with("installation", installation);
        change.audit(entry);
    }
    Ok(())
}

fn audit(change: &mut Change<'_>, ended: &[EndedLink]) {
    for link in ended {
        change.audit(link.entry());
    }
}
