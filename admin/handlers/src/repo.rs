//! `POST /projects/:name/repo`: linking a project to a repository whose pushes deploy it.

use std::time::Duration;

use admin_http::{
    error::{ApiError, Code},
    extract::Json,
};
use api::repo::{LinkRepo, RepoLinked};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use code_host::{CodeHostError, HostRepository, grants::AccessError};
use db::{
    audit::NewAuditEntry,
    code_host::{
        installations,
        repo_links::{self, NewLink},
    },
    permits::{Member, ProjectPermit},
};
use domain::{
    UserId,
    audit::Action,
    repo::{Branch, CommitSha, Directory, RepoName},
};
use jobs::pushes::CHECK_EVERY;

/// Timeout of looking up a repository at the code host, which may have to list all repositories.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(30);

/// Links a project to a repository, or unlinks it.
///
/// A push to the branch then deploys the directory of that commit. `repo: null` unlinks; the site stays as it is.
#[utoipa::path(
    post, path = "/projects/{name}/repo", operation_id = "link_repo", tag = "Code host", request_body = LinkRepo,
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "The repository that the project is linked to now", body = RepoLinked)),
    extensions(("x-errors" = json!({
        "not_found": "the project does not exist or is not yours, it may not use such an installation, or the installation does not reach the repository",
        "code_host_error": "the code host does not answer as it should, or wants you to sign in again",
        "busy": "the server is stopping; try again",
    }))),
)]
pub async fn set(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Json(body): Json<LinkRepo>,
) -> Result<Json<RepoLinked>, ApiError> {
    let Some(wanted) = body.repo else { return unlink(&app, &caller, &project).await };
    if project.share_name.is_some() {
        return Err(ApiError::invalid("A share cannot be linked to a repository; create a project for it."));
    }
    let installation = body.installation_id.ok_or_else(|| {
        ApiError::invalid("`installation_id` is missing: it names the installation that reaches the repository.")
    })?;
    let readers = readers(&app, &caller.user.id, &project, installation).await?;
    let looking = find_repository(&app, &readers, installation, &wanted, body.branch);
    let LinkableRepository { seen, repository, branch, head } =
        tokio::time::timeout(LOOK_UP_TIMEOUT, looking)
            .await
            .map_err(|_| ApiError::new(Code::CodeHostError, "The code host took too long; please try again."))??;

    let directory = body.directory.unwrap_or_else(Directory::root);
    let link = NewLink {
        installation: &seen,
        repo_id: repository.id,
        repo: &repository.name,
        owner_avatar_url: repository.owner_avatar_url.as_deref(),
        branch: &branch,
        directory: &directory,
        head: head.as_ref(),
        check_head_at: app.clock.now() + CHECK_EVERY,
        by: &caller.user.id,
    };
    let entry = NewAuditEntry::for_project(Action::RepoLink, &project)
        .with("repo", repository.name.as_str())
        .with("branch", branch.as_str())
        .with("directory", directory.as_str());
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    repo_links::link(&mut change, &project, &link, now).await?;
    change.audit(entry);
    change.commit().await?;
    Ok(Json(RepoLinked {
        ok: true,
        repo: Some(repository.name.to_string()),
        branch: Some(branch.to_string()),
        directory: Some(directory.to_string()),
    }))
}

async fn unlink(app: &App, caller: &CliUser, project: &ProjectPermit<Member>) -> Result<Json<RepoLinked>, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    if repo_links::unlink(&mut change, project).await? {
        change.audit(NewAuditEntry::for_project(Action::RepoUnlink, project));
    }
    change.commit().await?;
    Ok(Json(RepoLinked { ok: true, repo: None, branch: None, directory: None }))
}

/// Lists the people on whose behalf the installation is read for this project: the person who shared it with the
/// project's organization, then the caller; for a personal project only the caller.
async fn readers(
    app: &App,
    caller: &UserId,
    project: &ProjectPermit<Member>,
    installation: i64,
) -> Result<Vec<UserId>, ApiError> {
    if project.org_id.is_none() {
        return Ok(vec![caller.clone()]);
    }
    let shared = installations::shared_with_project(&app.db, project, installation).await?;
    let shared = shared.ok_or_else(|| ApiError::not_found("installation"))?;
    let mut readers = vec![shared.shared_by];
    if readers[0] != *caller {
        readers.push(caller.clone());
    }
    Ok(readers)
}

struct LinkableRepository {
    seen: installations::ReportedInstallation,
    repository: HostRepository,
    branch: Branch,
    /// The branch's head; `None` if the code host did not report it.
    head: Option<CommitSha>,
}

/// Finds the repository on behalf of the first reader whose authorization the code host still accepts.
async fn find_repository(
    app: &App,
    readers: &[UserId],
    installation: i64,
    wanted: &RepoName,
    branch: Option<Branch>,
) -> Result<LinkableRepository, ApiError> {
    let host = app.code_host.repositories().ok_or_else(|| ApiError::not_found("installation"))?;
    let mut refused = None;
    // On a person's behalf first: an installation can access more than any one of its users.
    for reader in readers {
        let looking = async {
            let token = app.grants.token(reader).await?;
            let seen = host.installations(&token).await?.into_iter().find(|seen| seen.id == installation);
            let found = host.find_through(&token, installation, wanted).await?;
            let Some((seen, repository)) = seen.zip(found) else { return Ok(None) };
            // Pushes are read with the app's token: let missing access show now, not at the first push.
            host.app_token(installation, repository.id).await?;
            let branch = branch.clone().unwrap_or_else(|| repository.default_branch.clone());
            // Later pushes move the branch from this commit. While it is unknown, missed pushes cannot be detected.
            let head = host.head(&token, &repository.name, &branch).await.ok();
            let head = head.map(|head| head.unwrap_or_else(CommitSha::null));
            Ok::<_, AccessError>(Some(LinkableRepository { seen, repository, branch, head }))
        };
        match looking.await {
            Ok(found) => {
                return found.ok_or_else(|| {
                    let message =
                        format!("The installation does not reach {wanted}; grant it access at the code host.");
                    ApiError::new(Code::NotFound, message)
                });
            }
            // The code host may still accept the next reader.
            Err(error @ (AccessError::SignInAgain | AccessError::Host(CodeHostError::Unauthorized { .. }))) => {
                refused.get_or_insert(ApiError::from(error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(refused.unwrap_or_else(|| ApiError::not_found("installation")))
}
