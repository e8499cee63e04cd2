//! The last steps to a live deployment, for uploads and pushes: the pack is written, then one change promotes it.

use std::fs::File;

use admin_http::error::ApiError;
use app::{
    App,
    auth::{
        Caller,
        second_look::{self, AccessSubject},
    },
    edges::Propagation,
};
use db::{
    audit::{Actor, NewAuditEntry},
    code_host::repo_deploys::{self, PushClaim},
    permits::{Deploy, ProjectPermit},
    projects::{
        deployments::{self, UploadContent, UploadError},
        suspension::{self, SuspendedError},
    },
    quotas::QuotaError,
};
use domain::{DeploymentId, audit::Action, plans::LimitReached, repo::CommitSha};
use packs::{PublishRoot, UploadFormat, WriteError};

use super::room;

/// The input of [`go_live`]: an uploaded or pushed archive, and the project where it is to go live.
pub struct Publication<'a> {
    /// The actor to whom the change and its audit entry are attributed.
    pub actor: Actor<'a>,
    /// The caller who uploaded it. It does not go live if they may no longer publish.
    pub caller: Option<&'a Caller>,
    /// The project that is to serve it, with the permit to deploy there.
    pub project: &'a ProjectPermit<Deploy>,
    /// The received archive.
    pub file: File,
    /// The archive's format.
    pub format: UploadFormat,
    /// The part of the archive that is published.
    pub root: PublishRoot,
    /// The push that it comes from, with the commit. It does not go live if a newer push has arrived.
    pub push: Option<(&'a PushClaim, &'a CommitSha)>,
}

/// The result of [`go_live`]: the change that promoted the deployment is committed.
pub struct LiveDeployment {
    /// How many edges have applied it.
    pub propagation: Propagation,
    /// Which parts of the upload were left out, and why.
    pub warnings: Vec<String>,
}

/// An error of going live. The project continues to serve its previous deployment.
#[derive(Debug, thiserror::Error)]
pub enum GoLiveError {
    /// The pack was not written: the archive or the store is faulty.
    #[error(transparent)]
    Pack(#[from] WriteError),
    /// The project, or the deployment's record, was deleted.
    #[error("the project is gone")]
    Gone,
    /// The operator has suspended the project, its owner or the publisher.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The uploader may no longer publish to the project.
    #[error("the right to publish was taken away")]
    Refused(ApiError),
    /// A newer push has arrived, or the link was removed.
    #[error("the push was overtaken")]
    Overtaken,
    /// The plan has no room for the deployment.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// Too many other publications are in progress.
    #[error("it was not its turn in time")]
    Busy(ApiError),
    /// The database failed or did not answer in time. A written pack stays: the commit may have succeeded.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Publishes the deployment `id`, whose record is `uploading`.
pub async fn go_live(
    app: &App,
    id: &DeploymentId,
    publication: Publication<'_>,
) -> Result<LiveDeployment, GoLiveError> {
    let Publication { actor, caller, project, file, format, root, push } = publication;
    let bytes = file.metadata().map_or(u64::MAX, |file| file.len());
    // A push has no caller, so it counts for the account that pays for the project.
    let counted = caller.map_or_else(|| project.payer(), Caller::paying_account);
    let turn = app.bounds.publish(&counted, bytes).await.map_err(GoLiveError::Busy)?;
    // Others may have used up the plan while this was received and waited: do not write a pack in vain.
    let is_room = async { Ok::<_, GoLiveError>(room::check_plan(app, project).await?) };
    db::in_time(is_room).await?;
    // Compare with what visitors have seen so far: an unchanged file keeps its `Last-Modified`.
    let earlier = project.active_deployment_id.as_ref();
    let pack = app.store.write_root(id, file, format, root, earlier, app.clock.now()).await?;
    drop(turn);
    let content = UploadContent { files: pack.files, bytes: pack.bytes, stored_bytes: pack.stored_bytes };
    let promote = async {
        let mut change = app.change(actor).await?;
        let now = change.now();
        let mut entry = NewAuditEntry::for_project(Action::DeploymentUpload, project).with("deployment", id.as_str());
        if let Some((claim, sha)) = push {
            if !repo_deploys::finish(&mut change, claim, sha).await? {
                return Err(GoLiveError::Overtaken);
            }
            entry = entry.with("git_sha", sha.as_str());
        }
        // An upload takes time: the uploader may be suspended by now.
        if let Some(suspended) = suspension::find_for_actor(&mut *change, actor, project.org_id.as_ref()).await? {
            return Err(suspended.into());
        }
        let touched = deployments::promote(&mut change, project, id, content, app.plans(), now).await?;
        // The upload and its pack take time: the token, the session or the membership may have ended meanwhile. The
        // project is locked by now, so it cannot move before the commit.
        if let Some(caller) = caller {
            let subject = AccessSubject::Project(project);
            second_look::recheck(&mut change, caller, subject, now).await.map_err(GoLiveError::Refused)?;
        }
        change.audit(entry);
        change.touch(touched);
        Ok(change.commit().await?)
    };
    match db::in_time(promote).await {
        Ok(propagation) => Ok(LiveDeployment { propagation, warnings: pack.warnings }),
        Err(
            error @ (GoLiveError::Gone
            | GoLiveError::Suspended(_)
            | GoLiveError::Refused(_)
            | GoLiveError::Overtaken
            | GoLiveError::Quota(_)),
        ) => {
            if let Err(error) = app.store.remove(id).await {
                tracing::warn!(%error, deployment = %id, "the pack is left to the sweep of the store");
            }
            Err(error)
        }
        // The pack stays, because the commit may have succeeded. If it has not, the sweep of the store finds the pack.
        Err(error) => Err(error),
    }
}

impl From<UploadError> for GoLiveError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Gone => Self::Gone,
            UploadError::Suspended(suspended) => Self::Suspended(suspended),
            UploadError::Quota(reached) => Self::Quota(reached),
            UploadError::Db(error) => Self::Db(error),
        }
    }
}

impl From<QuotaError> for GoLiveError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

impl From<GoLiveError> for ApiError {
    fn from(error: GoLiveError) -> Self {
        match error {
            GoLiveError::Pack(error) => super::receive::write_error(error),
            GoLiveError::Gone | GoLiveError::Overtaken => UploadError::Gone.into(),
            GoLiveError::Suspended(suspended) => suspended.into(),
            GoLiveError::Quota(reached) => reached.into(),
            GoLiveError::Busy(error) | GoLiveError::Refused(error) => error,
            GoLiveError::Db(error) => error.into(),
        }
    }
}
