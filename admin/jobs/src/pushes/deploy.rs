//! Deploys a push. The commit that the branch points at *now* is deployed, so that neither the order of arrival nor a
//! replay can replace a newer commit by an older one.

use std::time::Duration;

use acts::publishing::{
    go_live::{GoLiveError, Publication, go_live},
    record::{DropAction, UploadGuard},
    room,
};
use admin_http::quotas;
use app::{
    App,
    change::Change,
    events::{self, KIND_PUSH},
};
use code_host::SpooledTarball;
use db::{
    audit::Actor,
    code_host::repo_deploys::{self, DeployTarget, PushClaim},
    projects::{
        deployments::{self, UploadError, UploadOrigin},
        suspension,
    },
};
use domain::{DeploymentId, Timestamp, repo::CommitSha};
use mail::notices::{Notice, notify};
use packs::{PublishRoot, UploadFormat, WriteError};

use super::fetch::fetch;

/// The reason why a push waits while its project, the project's owner, or everybody who owns the organization is
/// suspended.
const SUSPENDED: &str = "The operator of this service has suspended the site; the push is deployed once that ends.";
const SUSPENDED_RETRY: Duration = Duration::from_mins(10);
/// The longest reason in a letter: it may name a file of the repository.
const REASON_CHARS: usize = 500;
/// The reason why a push waits while a disk is nearly full.
const NO_DISK: &str = "The server's disk is nearly full; the push is deployed once there is room.";

pub(super) enum PushOutcome {
    /// The deployment is live or failed, and already recorded.
    Done,
    /// There is nothing to deploy: the branch was deleted, or its head is deployed already.
    Nothing,
    /// A newer push has arrived.
    Overtaken,
    /// The program is stopping.
    Stopped,
    /// The code host does not show the pushed commit yet; retry after this pause.
    Settling(Duration),
    /// The push cannot be deployed, for this reason.
    Failed(String),
    /// The push waits until there is room, or a suspension ends.
    Waiting { reason: &'static str, after: Duration },
    /// The push failed, but may succeed later.
    Retry { error: String, after: Option<Duration> },
}

impl PushOutcome {
    pub(super) fn retry(error: impl std::fmt::Display) -> Self {
        Self::Retry { error: error.to_string(), after: None }
    }
}

pub(super) async fn deploy(app: &App, claim: &PushClaim) -> PushOutcome {
    let target = match app.db.acquire().await {
        Ok(mut db) => repo_deploys::find_target(&mut db, &claim.project).await,
        Err(error) => Err(error),
    };
    let target = match target {
        Ok(Some(target)) => target,
        Ok(None) => return PushOutcome::Nothing,
        Err(error) => return PushOutcome::retry(error),
    };
    match is_suspended(app, claim, &target).await {
        Ok(false) => {}
        Ok(true) => return suspended(),
        Err(error) => return PushOutcome::retry(error),
    }
    match room::has_disk(app).await {
        Ok(true) => {}
        Ok(false) => return PushOutcome::Waiting { reason: NO_DISK, after: room::FULL_RETRY },
        Err(error) => return PushOutcome::retry(error),
    }
    let (sha, files) = match fetch(app, claim, &target).await {
        Ok(fetched) => fetched,
        Err(outcome) => return outcome,
    };
    publish(app, claim, &target, &sha, files).await
}

/// Returns whether the project, its owner, or everybody who owns the organization is suspended.
async fn is_suspended(app: &App, claim: &PushClaim, target: &DeployTarget) -> Result<bool, sqlx::Error> {
    let of_project = suspension::find_for_project(&app.db, &claim.project).await?;
    Ok(of_project.is_some()
        || suspension::find_for_actor(&app.db, actor(claim), target.permit.org_id.as_ref()).await?.is_some())
}

async fn publish(
    app: &App,
    claim: &PushClaim,
    target: &DeployTarget,
    sha: &CommitSha,
    files: SpooledTarball,
) -> PushOutcome {
    // The spool reservation is released at the end of this function, when the file is deleted.
    let SpooledTarball { file, held: _held } = files;
    let upload = match begin(app, claim, target, sha).await {
        Ok(upload) => upload,
        Err(UploadError::Gone) => return PushOutcome::Nothing,
        Err(UploadError::Suspended(_)) => return suspended(),
        Err(error) => return PushOutcome::retry(error),
    };
    let publication = Publication {
        actor: actor(claim),
        caller: None,
        project: &target.permit,
        file,
        format: UploadFormat::TarGzip,
        root: PublishRoot::Repository(target.directory.clone()),
        push: Some((claim, sha)),
    };
    let id = upload.id().clone();
    match go_live(app, &id, publication).await {
        Ok(live) => {
            upload.finish(());
            let propagation = live.propagation;
            tracing::info!(project = %claim.project, %sha, deployment = %id, ?propagation, "a push is live");
            PushOutcome::Done
        }
        // Dropping the upload record deletes its row.
        Err(GoLiveError::Pack(WriteError::Archive(error))) => {
            fail(app, claim, target, sha, upload, &error.to_string()).await
        }
        Err(GoLiveError::Quota(reached)) => {
            fail(app, claim, target, sha, upload, &quotas::quota_message(&reached)).await
        }
        Err(GoLiveError::Suspended(_)) => suspended(),
        Err(GoLiveError::Pack(WriteError::Store(error))) => PushOutcome::retry(error),
        Err(GoLiveError::Busy(error) | GoLiveError::Refused(error)) => PushOutcome::retry(error.message()),
        Err(GoLiveError::Db(error)) => PushOutcome::retry(error),
        Err(GoLiveError::Gone | GoLiveError::Overtaken) => PushOutcome::Overtaken,
    }
}

fn suspended() -> PushOutcome {
    PushOutcome::Waiting { reason: SUSPENDED, after: SUSPENDED_RETRY }
}

async fn begin(
    app: &App,
    claim: &PushClaim,
    target: &DeployTarget,
    sha: &CommitSha,
) -> Result<UploadGuard, UploadError> {
    let id = DeploymentId::new(app.clock.now());
    let mut db = app.db.acquire().await?;
    deployments::begin(&mut db, &target.permit, &id, &origin(claim, sha), app.clock.now()).await?;
    Ok(UploadGuard::new(app, id, DropAction::Discard))
}

async fn fail(
    app: &App,
    claim: &PushClaim,
    target: &DeployTarget,
    sha: &CommitSha,
    upload: UploadGuard,
    reason: &str,
) -> PushOutcome {
    let noted = async {
        let mut change = app.change(actor(claim)).await?;
        if !repo_deploys::finish(&mut change, claim, sha).await? {
            return Ok(false);
        }
        let now = change.now();
        deployments::fail(&mut *change, upload.id(), reason, now).await?;
        tell_of_failure(&mut change, claim, target, sha, upload.id(), reason).await?;
        change.commit().await?;
        Ok::<_, sqlx::Error>(true)
    };
    match noted.await {
        Ok(true) => upload.finish(PushOutcome::Done),
        Ok(false) => PushOutcome::Overtaken,
        Err(error) => PushOutcome::retry(error),
    }
}

/// Records a push that could not be deployed as a failed deployment, with the reason.
pub(super) async fn record_failure(
    app: &App,
    claim: &PushClaim,
    sha: &CommitSha,
    reason: &str,
) -> Result<(), sqlx::Error> {
    let mut change = app.change(actor(claim)).await?;
    let Some(target) = repo_deploys::find_target(&mut change, &claim.project).await? else {
        repo_deploys::drop_claim(&mut change, claim).await?;
        return change.commit().await.map(drop);
    };
    if !repo_deploys::give_up(&mut change, claim).await? {
        drop(change);
        return repo_deploys::release_lease(&app.db, claim).await;
    }
    let now = change.now();
    let id = DeploymentId::new(now);
    match deployments::begin(&mut change, &target.permit, &id, &origin(claim, sha), now).await {
        Ok(()) => {
            deployments::fail(&mut *change, &id, reason, now).await?;
            tell_of_failure(&mut change, claim, &target, sha, &id, reason).await?;
        }
        // Nothing is promoted here, so the plan is not checked. A suspended project stays unchanged.
        Err(UploadError::Gone | UploadError::Suspended(_) | UploadError::Quota(_)) => {}
        Err(UploadError::Db(error)) => return Err(error),
    }
    change.commit().await.map(drop)
}

/// Records that a push waits until `at`. The project's members receive an event when the wait begins.
pub(super) async fn record_wait(app: &App, claim: &PushClaim, at: Timestamp, reason: &str) -> Result<(), sqlx::Error> {
    let mut change = app.change(actor(claim)).await?;
    let begins = repo_deploys::wait_until(&mut *change, claim, at, reason).await? && !claim.has_waited;
    if begins && let Some(target) = repo_deploys::find_target(&mut change, &claim.project).await? {
        publish_push_event(&mut change, claim, &target, &claim.sha, &[("state", "waiting"), ("message", reason)]);
    }
    change.commit().await.map(drop)
}

/// Tells the project's members by an event, and its owner by a letter.
async fn tell_of_failure(
    change: &mut Change<'_>,
    claim: &PushClaim,
    target: &DeployTarget,
    sha: &CommitSha,
    deployment: &DeploymentId,
    reason: &str,
) -> Result<(), sqlx::Error> {
    publish_push_event(
        change,
        claim,
        target,
        sha,
        &[("state", "failed"), ("deployment", deployment.as_str()), ("message", reason)],
    );
    let notice = Notice::DeploymentFailed {
        project: target.permit.name.clone(),
        commit: sha.clone(),
        reason: reason.chars().take(REASON_CHARS).collect(),
    };
    let (event, now) = (format!("deployment_failed/{deployment}"), change.now());
    notify(&mut *change, &target.permit.owner, &event, &notice, None, now).await
}

fn publish_push_event(
    change: &mut Change<'_>,
    claim: &PushClaim,
    target: &DeployTarget,
    sha: &CommitSha,
    detail: &[(&str, &str)],
) {
    let (by, now) = (Some(claim.pusher.as_str()), change.now());
    let mut event = events::project_event(KIND_PUSH, &target.permit, Some(sha.as_str()), by, now);
    for (key, value) in detail {
        event.detail.insert((*key).to_owned(), (*value).into());
    }
    change.publish(event);
}

fn actor(claim: &PushClaim) -> Actor<'_> {
    Actor::CodeHost(Some(&claim.pusher))
}

fn origin(claim: &PushClaim, sha: &CommitSha) -> UploadOrigin {
    UploadOrigin { cli_version: None, git_sha: Some(sha.to_string()), created_by: Some(claim.pusher.clone()) }
}
