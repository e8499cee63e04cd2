//! `POST /projects/:name/deployments`: record → receive → write the pack → promote → every edge has it.

use acts::publishing::{
    go_live::{GoLiveError, Publication, go_live},
    receive::{self, OriginHeaders, ReceivedBody, UploadSlot},
    record::{DropAction, UploadGuard},
    room,
};
use admin_http::{addresses, error::ApiError, extract::Json};
use api::deployments::Uploaded;
use app::{
    App,
    auth::{
        Caller, ProjectAccess,
        second_look::{self, AccessSubject},
    },
    middleware::idempotency::Idempotency,
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use db::{
    permits::{Deploy, ProjectPermit},
    projects::deployments,
};
use domain::DeploymentId;
use packs::{PublishRoot, UploadFormat};

/// Publishes a folder as a project's live deployment.
///
/// The body is a tarball compressed by gzip or Zstandard, or a zip archive, of at most 100 MB, with 1 to 10,000 regular
/// files of at most 25 MB each and 250 MB in total. The previous deployment is served until the new one is complete,
/// and can be activated again later. An organization's `deploy` token may do this too.
#[utoipa::path(
    post, path = "/projects/{name}/deployments", operation_id = "create_deployment", tag = "Deployments",
    params(("name" = String, Path, description = "The project's name"), OriginHeaders),
    request_body(
        content((Vec<u8> = "application/gzip"), (Vec<u8> = "application/zip"), (Vec<u8> = "application/zstd")),
        description = "A gzipped tarball, a zip archive, or a tarball compressed by Zstandard",
    ),
    responses(
        (status = 201, description = "The deployment is served now", body = Uploaded, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "not_found": "the project or the deployment was deleted, or the caller may not know of the project",
        "suspended": "the operator has suspended the project, its owner, or you",
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
    let format = receive::check_headers(&headers)?;
    let idempotency = idempotency.with_secret_header(receive::format_shape(format));
    room::check_deployment(&app, &project, idempotency.attempt(&app).await?).await?;
    let slot = UploadSlot::wait(&app.bounds, &caller.paying_account(), &headers).await?;
    let origin = receive::origin(&headers, caller.display_name());
    let id = DeploymentId::new(app.clock.now());
    let beginning = async {
        let mut db = app.db.acquire().await?;
        deployments::begin(&mut db, &project, &id, &origin, app.clock.now()).await
    };
    db::in_time(beginning).await?;
    let record = UploadGuard::new(
        &app,
        id,
        DropAction::Fail("The client disconnected before the upload was complete; deploy again."),
    );
    let spool = app.spool_folder();
    let received = tokio::select! {
        received = slot.receive(body, &spool) => received,
        refusal = second_look::until_revoked(&app, &caller, AccessSubject::Project(&project)) => Err(refusal),
    };
    let received = match received {
        Ok(received) => received,
        Err(error) => return Err(record.fail(error).await),
    };
    let sha256 = received.sha256;
    let (record, settled) = record.mark_received();
    let publishing = publish(record, caller, project, format, received);
    let answer = idempotency.run(&app, sha256, app.in_background(publishing)).await;
    settled.await;
    answer
}

async fn publish(
    record: UploadGuard,
    caller: Caller,
    project: ProjectPermit<Deploy>,
    format: UploadFormat,
    received: ReceivedBody,
) -> Result<Response, ApiError> {
    let record = record.mark_started();
    let (app, id) = (record.app().clone(), record.id().clone());
    let ReceivedBody { file, slot: _slot, .. } = received;
    let publication = Publication {
        actor: caller.actor(),
        caller: Some(&caller),
        project: &project,
        file,
        format,
        root: PublishRoot::Archive,
        push: None,
    };
    let live = match go_live(&app, &id, publication).await {
        Ok(live) => record.finish(live),
        Err(error @ (GoLiveError::Gone | GoLiveError::Overtaken)) => return Err(record.finish(error.into())),
        Err(error) => return Err(record.fail(error.into()).await),
    };
    let answer = Uploaded {
        url: addresses::project_url(&app.addresses, &project),
        deployment_id: id,
        expires_at: project.expires_at,
        warnings: live.warnings,
    };
    Ok((StatusCode::CREATED, live.propagation, Json(answer)).into_response())
}
