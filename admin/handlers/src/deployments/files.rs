//! `/projects/:name/deployments/:id/files` and `…/changes`: a deployment's files, and how they differ from another's.
//!
//! Both read the pack's manifest. `_headers` and `_redirects` at the root are compiled into it and not listed as files.

use std::time::Duration;

use admin_http::{
    error::{ApiError, Code},
    extract::{Json, Path, Query},
};
use api::deployments::{
    AddedFile, Against, ChangedFile, DeployedFile, DeployedFileList, DeploymentChanges, FilePage, RemovedFile,
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
    metrics,
};
use axum::extract::State;
use db::{
    permits::{Member, ProjectPermit},
    projects::deployments,
};
use domain::{
    DeploymentId,
    deployment::DeploymentStatus,
    limits::{CHANGED_FILES, FILE_PAGE_ROWS},
};
use packs::{ChangedFiles, ListedFile, PackChanges, StoreError};

use super::DeploymentPath;

/// The `Retry-After` when the store fails.
const STORE_RETRY: Duration = Duration::from_secs(30);

/// Lists the files of a deployment, sorted by path.
///
/// `_headers` and `_redirects` at the root are not served, and not listed.
#[utoipa::path(
    get, path = "/projects/{name}/deployments/{id}/files", operation_id = "list_deployment_files", tag = "Deployments",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("id" = String, Path, description = "The deployment's id"),
        FilePage,
    ),
    responses((status = 200, description = "The files", body = DeployedFileList)),
    extensions(("x-errors" = json!({
        "no_files": "the deployment is being uploaded, or its upload failed",
        "files_unavailable": "the store does not answer, or has lost or damaged the deployment's files",
        "busy": "too many deployments are being listed, or too many requests are under way",
    }))),
)]
pub async fn list(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(DeploymentPath { id }): Path<DeploymentPath>,
    Query(page): Query<FilePage>,
) -> Result<Json<DeployedFileList>, ApiError> {
    let rows = page_rows(&page)?;
    require_files(&app, &project, &id).await?;
    let turn = app.bounds.listing(&caller.paying_account()).await?;
    let (store, read_id) = (app.store.clone(), id.clone());
    // A separate task: reading a manifest holds memory, and so the permit, even after the client disconnects.
    let reading = app.in_background(async move {
        let _turn = turn;
        // One more than the page size shows whether there is a next page.
        Ok(store.files(&read_id, page.cursor, rows + 1).await)
    });
    let mut files = match reading.await? {
        Ok(files) => files,
        Err(error) => return Err(read_error(&app, &project, &id, error).await),
    };
    let has_more = files.len() > rows;
    files.truncate(rows);
    let next_cursor = files.last().filter(|_| has_more).map(|file| file.path.clone());
    let view = |ListedFile { path, size, sha256, content_type }| DeployedFile { path, size, sha256, content_type };
    Ok(Json(DeployedFileList { files: files.into_iter().map(view).collect(), next_cursor }))
}

/// Shows how the files of a deployment differ from those of the previous one, or of another one of the project.
///
/// Files are compared by content. Each list has at most 1,000 files; the totals count all.
#[utoipa::path(
    get, path = "/projects/{name}/deployments/{id}/changes", operation_id = "compare_deployments", tag = "Deployments",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("id" = String, Path, description = "The deployment's id"),
        Against,
    ),
    responses((status = 200, description = "The changes", body = DeploymentChanges)),
    extensions(("x-errors" = json!({
        "no_files": "one of the deployments is being uploaded, or its upload failed",
        "files_unavailable": "the store does not answer, or has lost or damaged the files of one of the deployments",
        "busy": "too many deployments are being compared, or too many requests are under way",
    }))),
)]
pub async fn changes(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(DeploymentPath { id }): Path<DeploymentPath>,
    Query(Against { against }): Query<Against>,
) -> Result<Json<DeploymentChanges>, ApiError> {
    require_files(&app, &project, &id).await?;
    let against = match against {
        Some(other) => {
            require_files(&app, &project, &other).await?;
            Some(other)
        }
        None => deployments::find_previous(&app.db, &project, &id).await?,
    };
    let turn = app.bounds.listing(&caller.paying_account()).await?;
    let (store, read_id, before) = (app.store.clone(), id.clone(), against.clone());
    let comparing = app.in_background(async move {
        let _turn = turn;
        Ok(store.changes(&read_id, before.as_ref(), CHANGED_FILES).await)
    });
    match comparing.await? {
        Ok(changes) => Ok(Json(view(against, changes))),
        Err(error) => {
            if let Some(other) = &against {
                require_files(&app, &project, other).await?;
            }
            Err(read_error(&app, &project, &id, error).await)
        }
    }
}

fn page_rows(page: &FilePage) -> Result<usize, ApiError> {
    let rows = page.limit.as_deref().map_or(Some(FILE_PAGE_ROWS), |limit| limit.parse().ok());
    rows.filter(|rows| (1..=FILE_PAGE_ROWS).contains(rows))
        .ok_or_else(|| ApiError::invalid(format!("`limit` must be a whole number from 1 to {FILE_PAGE_ROWS}.")))
}

/// Rejects a deployment of another project, or one without stored files.
pub(super) async fn require_files(
    app: &App,
    project: &ProjectPermit<Member>,
    id: &DeploymentId,
) -> Result<(), ApiError> {
    let row = deployments::find(&app.db, project, id).await?.ok_or_else(|| ApiError::not_found("deployment"))?;
    if row.status.has_files() {
        return Ok(());
    }
    let why = match row.status {
        DeploymentStatus::Uploading => "is still being uploaded; its files are there once it is complete",
        _ => "failed, so it has no files; deploy again",
    };
    Err(ApiError::new(Code::NoFiles, format!("The deployment {id} {why}.")))
}

/// Returns the error for files that could not be read: 404 only if the deployment was deleted meanwhile.
pub(super) async fn read_error(
    app: &App,
    project: &ProjectPermit<Member>,
    id: &DeploymentId,
    error: StoreError,
) -> ApiError {
    match require_files(app, project, id).await {
        Ok(()) => files_unavailable(error),
        Err(gone) => gone,
    }
}

fn view(against: Option<DeploymentId>, changes: PackChanges) -> DeploymentChanges {
    let PackChanges { added, changed, removed } = changes;
    let is_cut = |files: &ChangedFiles| usize::try_from(files.count).is_ok_and(|count| count > files.first.len());
    let truncated = [&added, &changed, &removed].into_iter().any(is_cut);
    let known = Option::unwrap_or_default;
    DeploymentChanges {
        against,
        truncated,
        added_files: added.count,
        changed_files: changed.count,
        removed_files: removed.count,
        added: added.first.into_iter().map(|it| AddedFile { path: it.path, size: known(it.size) }).collect(),
        changed: (changed.first.into_iter())
            .map(|it| ChangedFile { path: it.path, size: known(it.size), size_before: known(it.size_before) })
            .collect(),
        removed: (removed.first.into_iter())
            .map(|it| RemovedFile { path: it.path, size_before: known(it.size_before) })
            .collect(),
    }
}

/// Converts the error of a store that cannot give a deployment's files.
pub(super) fn files_unavailable(error: StoreError) -> ApiError {
    let message = match &error {
        error if error.is_pack_fault() => {
            "The deployment's files are lost or damaged in the store; the operator can see which. Deploy again, or activate \
             another deployment."
        }
        error if error.is_transient() => {
            metrics::store_failed();
            "The store does not answer at the moment; please try again."
        }
        _ => return ApiError::internal(error),
    };
    ApiError::new(Code::FilesUnavailable, message).retry_after(STORE_RETRY).caused_by(error)
}
