//! From a spooled tarball to what every visitor sees: pack, then one transaction. Uploads and pushes come this way.

use std::fs::File;

use db::{
    audit::{self, Actor, Entry},
    deployments::{self, Content, UploadError},
    projects::{Deploy, Permit},
    repo_deploys::{self, Claim},
};
use domain::{DeploymentId, audit::Action, changes::RouteChange, repo::CommitSha};
use packs::{PublishError, Root};

use crate::{app::App, error::ApiError};

/// What is to go live, and in whose name.
pub(crate) struct Work<'a> {
    pub(crate) actor: Actor<'a>,
    pub(crate) project: &'a Permit<Deploy>,
    pub(crate) file: File,
    pub(crate) root: Root,
    /// The push that it answers, and the commit: nothing becomes of it once a newer push has come.
    pub(crate) push: Option<(&'a Claim, &'a CommitSha)>,
}

/// It is live, and the edges are to be told.
pub(crate) struct Live {
    pub(crate) change: RouteChange,
    pub(crate) warnings: Vec<String>,
}

/// Why it is not live.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GoLiveError {
    /// The archive's fault, or the store's.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The project, or the deployment's record, is no longer there.
    #[error("the project is gone")]
    Gone,
    /// A newer push has come, or the link has ended.
    #[error("the push was overtaken")]
    Overtaken,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Publishes the deployment `id`, whose record is `uploading`.
pub(crate) async fn go_live(app: &App, id: &DeploymentId, work: Work<'_>) -> Result<Live, GoLiveError> {
    let Work { actor, project, file, root, push } = work;
    let published = app.store.publish_root(id, file, root, app.clock.now()).await?;
    let content = Content { files: published.files, bytes: published.bytes };
    let commit = async {
        let now = app.clock.now();
        let mut entry = Entry::of_project(actor, Action::DeploymentUpload, project).with("deployment", id.as_str());
        let mut tx = app.db.begin().await?;
        if let Some((claim, sha)) = push {
            if !repo_deploys::finish(&mut tx, claim, sha).await? {
                return Err(GoLiveError::Overtaken);
            }
            entry = entry.with("git_sha", sha.as_str());
        }
        audit::record(&mut tx, &entry, now).await?;
        let change = deployments::publish(&mut tx, project, id, content, now).await?;
        tx.commit().await?;
        Ok(change)
    };
    match commit.await {
        Ok(change) => Ok(Live { change, warnings: published.warnings }),
        Err(error @ (GoLiveError::Gone | GoLiveError::Overtaken)) => {
            if let Err(error) = app.store.remove(id).await {
                tracing::warn!(%error, deployment = %id, "the pack is left to the search for orphans");
            }
            Err(error)
        }
        // The pack stays, because the commit may have succeeded: if it has not, it is an orphan, and found as one.
        Err(error) => Err(error),
    }
}

impl From<UploadError> for GoLiveError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Gone => Self::Gone,
            UploadError::Db(error) => Self::Db(error),
        }
    }
}

impl From<GoLiveError> for ApiError {
    fn from(error: GoLiveError) -> Self {
        match error {
            GoLiveError::Publish(error) => error.into(),
            GoLiveError::Gone | GoLiveError::Overtaken => UploadError::Gone.into(),
            GoLiveError::Db(error) => error.into(),
        }
    }
}
