//! `POST /projects/:name/deployments`: record → receive → pack → go live → every edge has it.

use std::{fs::File, mem};

use super::receive::{self, OriginHeaders, Turn, UploadRefusal};
use crate::{
    api::projects::url,
    app::App,
    auth::{Caller, ProjectAccess},
    error::{ApiError, Code},
    extract::Json,
    middleware::idempotency::Idempotency,
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use common::{
    api::deployments::Uploaded,
    db::{
        audit::{self, Entry},
        deployments::{self, Content, UploadError},
        projects::{Deploy, Permit},
    },
    domain::{DeploymentId, audit::Action},
};

/// Publishes a folder as the project's live deployment. The old one stays until the new one is complete, and can be
/// activated again.
#[utoipa::path(
    post, path = "/projects/{name}/deployments", tag = "Deployments",
    params(("name" = String, Path, description = "The project's name"), OriginHeaders),
    request_body(content = Vec<u8>, content_type = "application/gzip", description = "A gzipped tarball"),
    responses((status = 201, description = "It is served now", body = Uploaded), UploadRefusal),
)]
pub async fn upload(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Deploy>,
    caller: Caller,
    idempotency: Idempotency,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let turn = Turn::wait(&app, &headers).await?;
    let origin = receive::origin(&headers, caller.display_name());
    let id = DeploymentId::new(app.clock.now());
    let mut db = app.db.acquire().await?;
    deployments::begin(&mut db, &project, &id, &origin, app.clock.now()).await?;
    drop(db);
    let upload = Upload { app: app.clone(), id, unless_ended: Ending::Fail("The client left before it had sent all.") };
    let spooled = match turn.receive(&app, body).await {
        Ok(spooled) => spooled,
        Err(error) => return Err(upload.fail(error).await),
    };
    let upload = upload.received();
    let publish = async move |file| publish(upload, &caller, &project, file).await;
    spooled.publish(&app, idempotency, publish).await
}

async fn publish(
    upload: Upload,
    caller: &Caller,
    project: &Permit<Deploy>,
    spooled: File,
) -> Result<Response, ApiError> {
    let upload = upload.started();
    let (app, id) = (upload.app.clone(), upload.id.clone());
    let published = match app.store.publish(&id, spooled, app.clock.now()).await {
        Ok(published) => published,
        Err(error) => return Err(upload.fail(error.into()).await),
    };
    let content = Content { files: published.files, bytes: published.bytes };
    let go_live = async {
        let now = app.clock.now();
        let entry = Entry::of_project(caller.actor(), Action::DeploymentUpload, project);
        let mut tx = app.db.begin().await?;
        audit::record(&mut tx, &entry.with("deployment", id.as_str()), now).await?;
        let change = deployments::publish(&mut tx, project, &id, content, now).await?;
        tx.commit().await?;
        Ok(change)
    };
    let change = match go_live.await {
        Ok(change) => upload.ended(change),
        Err(UploadError::Gone) => {
            upload.ended(());
            if let Err(error) = app.store.remove(&id).await {
                tracing::warn!(%error, deployment = %id, "the pack is left to the search for orphans");
            }
            return Err(UploadError::Gone.into());
        }
        // The pack stays, because the commit may have succeeded: if it has not, it is an orphan, and found as one.
        Err(UploadError::Db(error)) => return Err(upload.fail(error.into()).await),
    };
    let propagation = app.edges.apply(change).await;
    let answer = Uploaded {
        url: url(&app.addresses, project),
        deployment_id: id,
        expires_at: project.expires_at,
        warnings: published.warnings,
    };
    Ok((StatusCode::CREATED, propagation, Json(answer)).into_response())
}

/// An upload that is recorded. However its handler ends, its record does not stay `uploading`.
struct Upload {
    app: App,
    id: DeploymentId,
    /// What becomes of the record when this is dropped.
    unless_ended: Ending,
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    /// It failed, for this reason.
    Fail(&'static str),
    /// It is forgotten: the request was a repetition, and was answered with the first one's answer.
    Discard,
    /// It has ended already.
    Ended,
}

impl Upload {
    fn received(mut self) -> Self {
        self.unless_ended = Ending::Discard;
        self
    }

    fn started(mut self) -> Self {
        self.unless_ended = Ending::Fail("The upload was cut off on our side; please try again.");
        self
    }

    fn ended<T>(mut self, outcome: T) -> T {
        self.unless_ended = Ending::Ended;
        outcome
    }

    /// Records the failure, and gives the error back to be answered.
    async fn fail(mut self, error: ApiError) -> ApiError {
        if let Err(unrecorded) = deployments::fail(&self.app.db, &self.id, error.message()).await {
            tracing::warn!(error = %unrecorded, deployment = %self.id, "a failed upload is left to the job");
        }
        self.unless_ended = Ending::Ended;
        error
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let (db, id) = (self.app.db.clone(), self.id.clone());
        let ending = mem::replace(&mut self.unless_ended, Ending::Ended);
        let end = async move {
            let ended = match ending {
                Ending::Fail(reason) => deployments::fail(&db, &id, reason).await,
                Ending::Discard => deployments::discard(&db, &id).await,
                Ending::Ended => Ok(()),
            };
            if let Err(error) = ended {
                tracing::warn!(%error, deployment = %id, "an upload that ended early is left to the job");
            }
        };
        if !matches!(ending, Ending::Ended) {
            self.app.tasks.spawn(end);
        }
    }
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Gone => {
                Self::new(Code::NotFound, "The project or this deployment was deleted while it was being uploaded.")
            }
            UploadError::Db(error) => error.into(),
        }
    }
}
