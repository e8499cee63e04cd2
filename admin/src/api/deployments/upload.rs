//! `POST /projects/:name/deployments`: record → receive → pack → go live → every edge has it.

use std::fs::File;

use api::deployments::Uploaded;
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use db::{
    deployments::{self, UploadError},
    projects::{Deploy, Permit},
};
use domain::DeploymentId;
use packs::Root;

use super::{
    publish::{self, GoLiveError, Work},
    receive::{self, OriginHeaders, Turn},
    record::{Ending, Upload},
};
use crate::{
    api::projects::url,
    app::App,
    auth::{Caller, ProjectAccess},
    error::{ApiError, Code},
    extract::Json,
    middleware::idempotency::Idempotency,
};

/// Publishes a folder as a project's live deployment.
///
/// The body is a gzipped tarball of at most 100 MB, with 1 to 10,000 regular files of at most 25 MB each and 250 MB
/// together. The former deployment is served until the new one is complete, and can be activated again later. Works
/// with an organization's `deploy` token too.
#[utoipa::path(
    post, path = "/projects/{name}/deployments", tag = "Deployments",
    params(("name" = String, Path, description = "The project's name"), OriginHeaders),
    request_body(content = Vec<u8>, content_type = "application/gzip", description = "A gzipped tarball"),
    responses(
        (status = 201, description = "The deployment is served now", body = Uploaded, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "not_found": "the project or the deployment was deleted, or the caller may not know of the project",
    }))),
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
    let upload = Upload::new(&app, id, Ending::Fail("The client left before it had sent all."));
    let spooled = match turn.receive(&app, body).await {
        Ok(spooled) => spooled,
        Err(error) => return Err(upload.fail(error).await),
    };
    let upload = upload.received();
    let publish = async move |file| publish(upload, &caller, &project, file).await;
    spooled.publish(&app, idempotency, publish).await
}

async fn publish(upload: Upload, caller: &Caller, project: &Permit<Deploy>, file: File) -> Result<Response, ApiError> {
    let upload = upload.started();
    let (app, id) = (upload.app().clone(), upload.id().clone());
    let work = Work { actor: caller.actor(), project, file, root: Root::Archive, push: None };
    let live = match publish::go_live(&app, &id, work).await {
        Ok(live) => upload.ended(live),
        Err(error @ (GoLiveError::Gone | GoLiveError::Overtaken)) => return Err(upload.ended(error.into())),
        Err(error) => return Err(upload.fail(error.into()).await),
    };
    let propagation = app.edges.apply(live.change).await;
    let answer = Uploaded {
        url: url(&app.addresses, project),
        deployment_id: id,
        expires_at: project.expires_at,
        warnings: live.warnings,
    };
    Ok((StatusCode::CREATED, propagation, Json(answer)).into_response())
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
