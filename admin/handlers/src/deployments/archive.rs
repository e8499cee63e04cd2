//! `/projects/:name/deployments/:id/archive`: a deployment's uploaded files as a single file.
//!
//! A task creates the archive while it is sent, and ends when the client stalls. If the archive cannot be completed,
//! the connection is aborted, so that the client does not take it for complete.

use std::num::NonZeroU32;

use admin_http::{
    error::{ApiError, Code},
    extract::{Path, Query},
};
use api::deployments::{ArchiveFormat, ArchiveQuery};
use app::{
    App,
    auth::{
        Caller, ProjectAccess,
        second_look::{self, AccessSubject},
    },
    bounds::{DOWNLOAD_PAUSE, DownloadPermit, DownloadPermits},
    metrics,
    rates::Bucket,
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use db::{
    permits::{Member, ProjectPermit},
    projects::deployments,
};
use domain::{DeploymentId, Timestamp, limits::MB};
use futures_util::{Stream, stream};
use packs::{ArchiveSink, DownloadFormat, ExportError, UploadedFiles, write_archive};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    DeploymentPath,
    files::{read_error, require_files},
};

const PARTS_AHEAD: usize = 2;

/// Downloads all files of a deployment as they were uploaded, as a gzipped tarball or a zip archive.
///
/// The archive includes `_headers` and `_redirects`, as far as they are in effect, but not the names and passwords of
/// `Basic-Auth`, of which only hashes are stored. Older deployments, made before these files were stored, lack both.
/// The archive is created while it is sent, so its length is not known in advance, and an interrupted download is
/// incomplete. The same deployment always produces the same bytes. Downloads do not count as traffic.
///
/// A person may download 120 deployments and 20 GB of their files an hour, which are counted when a download begins.
/// While the server has as many downloads as it may and somebody else waits, one is interrupted: one of several of a
/// person, or, after its first half minute, a slow one, or the one that has gone on longest beyond half a minute and a
/// second for each megabyte. There are no ranges: an interrupted download is begun anew.
#[utoipa::path(
    get, path = "/projects/{name}/deployments/{id}/archive", operation_id = "download_deployment", tag = "Deployments",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("id" = String, Path, description = "The deployment's id"),
        ArchiveQuery,
    ),
    responses((
        status = 200, description = "The archive", headers(
            ("Cache-Control"), ("Content-Disposition"), ("X-Content-Type-Options"),
        ),
        content((Vec<u8> = "application/gzip"), (Vec<u8> = "application/zip")),
    )),
    extensions(("x-errors" = json!({
        "not_found": "the project has no such deployment: it was deleted, or has expired; or the caller may not know of the project",
        "no_files": "the deployment is being uploaded, or its upload failed",
        "files_unavailable": "the store does not answer, or has lost or damaged the deployment's files",
        "rate_limit_exceeded": "you have downloaded too many deployments, or too many bytes of them, within an hour, or too many requests sent",
        "busy": "as many downloads are under way as the server, or you, may have at a time",
    }))),
)]
pub async fn download(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    caller: Caller,
    Path(DeploymentPath { id }): Path<DeploymentPath>,
    Query(ArchiveQuery { format }): Query<ArchiveQuery>,
) -> Result<Response, ApiError> {
    let format = format.unwrap_or_default();
    let row = deployments::find(&app.db, &project, &id).await?.ok_or_else(no_such_deployment)?;
    require_files(&app, &project, &id).await?;
    let (payer, person) = (caller.paying_account(), caller.counted_for().payer);
    app.rate_limits.count(Bucket::Download, &person).await.check()?;
    let bytes = u64::try_from(row.bytes).unwrap_or_default();
    let turn = app.bounds.downloads().acquire(&payer, bytes).await?;
    // What is refused a permit is not downloaded.
    count_bytes(&app, &person, bytes).await?;
    let listing = app.bounds.listing(&payer).await?;
    let (store, read_id) = (app.store.clone(), id.clone());
    // A separate task: reading a manifest holds memory, and so the permit, even after the client disconnects.
    let opening = app.in_background(async move {
        let _listing = listing;
        Ok(async {
            let mut files = store.uploaded(&read_id).await?;
            files.prefetch().await?;
            Ok(files)
        }
        .await)
    });
    let files = match opening.await? {
        Ok(files) => files,
        Err(error) => return Err(read_error(&app, &project, &id, error).await),
    };
    let name = format!("attachment; filename=\"{}-{id}.{}\"", project.name, format.extension());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type(format))),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(name).map_err(ApiError::internal)?),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    let body = Body::from_stream(stream_archive(&app, (caller, project), id, files, format, row.created_at, turn));
    Ok((headers, body).into_response())
}

/// Counts a download of a deployment with `bytes` bytes of files against the person's rate limit.
async fn count_bytes(app: &App, person: &str, bytes: u64) -> Result<(), ApiError> {
    let megabytes = u32::try_from(bytes.div_ceil(MB)).unwrap_or(u32::MAX);
    let counted = NonZeroU32::new(megabytes).unwrap_or(NonZeroU32::MIN);
    app.rate_limits
        .count_amount(Bucket::DownloadMegabytes, person, counted)
        .await
        .check_or("You have downloaded as many bytes as an hour has; wait as long as Retry-After says, then go on.")
}

/// The error for a deployment that does not exist or no longer exists.
fn no_such_deployment() -> ApiError {
    ApiError::new(
        Code::NotFound,
        "The project has no such deployment: it was deleted, or has expired. The list of deployments says which can be downloaded.",
    )
}

const fn content_type(format: ArchiveFormat) -> &'static str {
    match format {
        ArchiveFormat::TarGz => "application/gzip",
        ArchiveFormat::Zip => "application/zip",
    }
}

/// Spawns the task that creates the archive. The task holds the permit until it ends.
fn stream_archive(
    app: &App,
    (caller, project): (Caller, ProjectPermit<Member>),
    id: DeploymentId,
    mut files: UploadedFiles,
    format: ArchiveFormat,
    date: Timestamp,
    turn: DownloadPermit,
) -> impl Stream<Item = Result<Bytes, DownloadAbortedError>> + Send + use<> {
    let (to, parts) = mpsc::channel(PARTS_AHEAD);
    let (done, is_whole) = oneshot::channel();
    let form = match format {
        ArchiveFormat::TarGz => DownloadFormat::TarGz,
        ArchiveFormat::Zip => DownloadFormat::Zip,
    };
    let longest = DownloadPermits::max_duration(files.bytes());
    let (looks, progress) = (app.clone(), turn.progress());
    app.tasks.spawn(async move {
        let sink = ArchiveSink { to, patience: DOWNLOAD_PAUSE };
        let writing = write_archive(&mut files, form, date.unix_seconds(), &sink);
        let written = tokio::select! {
            written = timeout(longest, writing) => written.unwrap_or(Err(ExportError::Stalled)),
            () = turn.revoked() => Err(ExportError::Stalled),
            // A caller who loses access during the download receives no more of it.
            _ = second_look::until_revoked(&looks, &caller, AccessSubject::Project(&project)) => Err(ExportError::Gone),
        };
        match written {
            // The client may have disconnected.
            Ok(()) => drop(done.send(())),
            Err(ExportError::Gone | ExportError::Stalled) => {}
            Err(error) => {
                if matches!(&error, ExportError::Store(failed) if failed.is_transient()) {
                    metrics::store_failed();
                }
                tracing::error!(deployment = %id, "a download broke off: {error}");
            }
        }
    });
    stream::unfold((parts, Some(is_whole), progress), |(mut parts, is_whole, progress)| async move {
        if let Some(part) = parts.recv().await {
            progress.record(part.len());
            return Some((Ok(part), (parts, is_whole, progress)));
        }
        // The archive is complete only if the task says so.
        is_whole?.await.err().map(|_| (Err(DownloadAbortedError), (parts, None, progress)))
    })
}

/// The error that aborts an incomplete download.
#[derive(Debug, thiserror::Error)]
#[error("the download broke off")]
struct DownloadAbortedError;
