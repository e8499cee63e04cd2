//! Deployments and their states. Every change of a project's active deployment first locks the project's row, so that
//! uploads, activations and deletions of one project are serialized. Clean-up by jobs is in `upkeep::deployments`.

use domain::{
    Account, DeploymentId, ProjectId, Timestamp,
    changes::PendingChange,
    deployment::DeploymentStatus,
    limits::{DEPLOYMENT_KEPT, FAILED_DEPLOYMENTS, PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES},
    plans::{LimitReached, Plans},
};
use sqlx::{PgConnection, PgExecutor};

use super::suspension::{self, SuspendedError};
use crate::{
    billing::plan,
    permits::{AtLeast, Deploy, Member, ProjectPermit},
    quotas::{self, QuotaError},
    upkeep::pack_removals,
};

/// A deployment's row.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The id.
    pub id: DeploymentId,
    /// The state.
    pub status: DeploymentStatus,
    /// The number of regular files.
    pub files: i32,
    /// The total size of the extracted files, in bytes.
    pub bytes: i64,
    /// The client that uploaded it.
    pub cli_version: Option<String>,
    /// The commit it was built from.
    pub git_sha: Option<String>,
    /// The login or token label of the uploader.
    pub created_by: Option<String>,
    /// The reason the upload failed.
    pub failure: Option<String>,
    /// The time the upload began.
    pub created_at: Timestamp,
    /// The time another deployment replaced it, if it was ever live.
    pub superseded_at: Option<Timestamp>,
}

/// The newest deployments of a project that expire, because newer ones fill the number kept.
#[derive(Debug, Clone)]
pub struct KeptDeployments {
    newest_beyond: Option<DeploymentId>,
    /// The newest failed deployment beyond the number kept.
    newest_failed_beyond: Option<DeploymentId>,
}

impl KeptDeployments {
    /// Returns the time a deployment expires; `None` while it is live or within the number kept.
    pub fn expires_at(&self, deployment: &Deployment) -> Option<Timestamp> {
        let newest_beyond = match deployment.status {
            DeploymentStatus::Live | DeploymentStatus::Uploading => None,
            DeploymentStatus::Superseded => self.newest_beyond.as_ref(),
            DeploymentStatus::Failed => self.newest_failed_beyond.as_ref(),
        };
        let last_use = deployment.superseded_at.map_or(deployment.created_at, |end| end.max(deployment.created_at));
        newest_beyond.filter(|newest| deployment.id <= **newest).map(|_| last_use + DEPLOYMENT_KEPT)
    }
}

/// The origin of an upload.
#[derive(Debug, Clone)]
pub struct UploadOrigin {
    /// The client that uploads.
    pub cli_version: Option<String>,
    /// The commit it was built from.
    pub git_sha: Option<String>,
    /// The login or token label of the uploader.
    pub created_by: Option<String>,
}

/// The number and size of an upload's files.
#[derive(Debug, Clone, Copy)]
pub struct UploadContent {
    /// The number of regular files.
    pub files: u32,
    /// The total size of the extracted files, in bytes.
    pub bytes: u64,
    /// The bytes that the store keeps for them.
    pub stored_bytes: u64,
}

impl UploadContent {
    /// Returns the bytes that count against the plan: usually the size of the pack on disk.
    pub fn counted_bytes(self) -> u64 {
        self.stored_bytes.saturating_add(PACK_OVERHEAD_BYTES.unsigned_abs()).max(PACK_LEAST_BYTES.unsigned_abs())
    }

    pub(crate) fn columns(self) -> (i32, i64, i64) {
        let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        (i32::try_from(self.files).unwrap_or(i32::MAX), bytes(self.bytes), bytes(self.stored_bytes))
    }
}

/// Reads deployments; the first argument is the condition with the rest of the statement.
macro_rules! select_deployments {
    ($condition:literal, $($argument:expr),* $(,)?) => {
        sqlx::query_as!(
            Deployment,
            "SELECT id, status, files, bytes, cli_version, git_sha, created_by, failure, created_at, superseded_at
             FROM deployments WHERE " + $condition,
            $($argument),*
        )
    };
}

/// Returns the project's deployments, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    before: Option<&DeploymentId>,
    rows: i64,
) -> Result<Vec<Deployment>, sqlx::Error> {
    select_deployments!(
        "project_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3",
        project.id.as_str(),
        before.map(DeploymentId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Returns a deployment of the project; `None` for one of another project.
pub async fn find(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    id: &DeploymentId,
) -> Result<Option<Deployment>, sqlx::Error> {
    select_deployments!("project_id = $1 AND id = $2", project.id.as_str(), id.as_str(),).fetch_optional(db).await
}

/// Returns how far the newest `kept` deployments of a project go back, like [`crate::upkeep::deployments::expire`].
pub async fn find_kept(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    kept: u32,
) -> Result<KeptDeployments, sqlx::Error> {
    sqlx::query_as!(
        KeptDeployments,
        r#"SELECT (SELECT id FROM deployments WHERE project_id = $1 AND status IN ('live', 'superseded')
                   ORDER BY id DESC OFFSET $2 LIMIT 1) AS "newest_beyond: DeploymentId",
                  (SELECT id FROM deployments WHERE project_id = $1 AND status = 'failed'
                   ORDER BY id DESC OFFSET $2 LIMIT 1) AS "newest_failed_beyond: DeploymentId""#,
        project.id.as_str(),
        i64::from(kept),
    )
    .fetch_one(db)
    .await
}

/// Returns the project's previous deployment before the given one, among those whose files are kept.
pub async fn find_previous(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    id: &DeploymentId,
) -> Result<Option<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT id FROM deployments WHERE project_id = $1 AND id < $2 AND status IN ('live', 'superseded')
         ORDER BY id DESC LIMIT 1",
        project.id.as_str(),
        id.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// The reason an upload could not begin or go live.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The project, or this upload's record, was deleted.
    #[error("the project is gone")]
    Gone,
    /// The operator has suspended the project or its owner.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The plan of the project's owner has no room for it.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<QuotaError> for UploadError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

/// Records that an upload has begun.
pub async fn begin(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    id: &DeploymentId,
    origin: &UploadOrigin,
    now: Timestamp,
) -> Result<(), UploadError> {
    // Check before anything is received. [`promote`] refuses a project that is suspended later.
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    // Select from the project, so that a concurrent deletion yields no row instead of a foreign key violation.
    let begun = sqlx::query!(
        "INSERT INTO deployments (id, project_id, status, cli_version, git_sha, created_by, created_at)
         SELECT $1, p.id, 'uploading', $3, $4, $5, $6 FROM projects p WHERE p.id = $2 FOR KEY SHARE",
        id.as_str(),
        project.id.as_str(),
        origin.cli_version,
        origin.git_sha,
        origin.created_by,
        now,
    )
    .execute(conn)
    .await?;
    if begun.rows_affected() == 1 { Ok(()) } else { Err(UploadError::Gone) }
}

/// Records why an upload failed, unless it is no longer uploading. Keeps the project's newest [`FAILED_DEPLOYMENTS`]
/// failed uploads, to bound the rows of a client whose uploads always fail.
pub async fn fail(db: impl PgExecutor<'_>, id: &DeploymentId, reason: &str, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        // A deleted upload may have left a part of a pack. The statement's snapshot does not show the new failure, so
        // it keeps one failed upload less. Rows that another such statement is deleting are skipped.
        "WITH failed AS (
             UPDATE deployments SET status = 'failed', failure = $2 WHERE id = $1 AND status = 'uploading'
             RETURNING project_id),
         removed AS (
             DELETE FROM deployments WHERE id IN (
                 SELECT d.id FROM deployments d
                 WHERE d.project_id = (SELECT project_id FROM failed) AND d.status = 'failed'
                 ORDER BY d.id DESC OFFSET $3::bigint - 1 LIMIT 100 FOR UPDATE SKIP LOCKED)
             RETURNING id)
         INSERT INTO pack_removals (deployment_id, queued_at, next_attempt_at) SELECT id, $4, $4 FROM removed
         ON CONFLICT DO NOTHING",
        id.as_str(),
        // A reason may quote a path from the archive; Postgres stores no NUL.
        reason.replace('\0', "\u{fffd}"),
        FAILED_DEPLOYMENTS,
        now,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Promotes an upload whose pack is written, if its owner's plan has room. The project serves it from the commit on.
pub async fn promote(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    id: &DeploymentId,
    content: UploadContent,
    plans: &Plans,
    now: Timestamp,
) -> Result<PendingChange, UploadError> {
    let Some(owner) = lock_project(conn, &project.id).await? else { return Err(UploadError::Gone) };
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    let allowance = plan::lock_allowance(conn, plans, &owner).await?;
    quotas::stored_bytes(&mut *conn, &owner, content.counted_bytes(), &allowance).await?;
    quotas::deleted_bytes(&mut *conn, &owner, &allowance, now).await?;
    let kept = plan::kept_deployments(conn, plans, &owner).await?;
    quotas::deployments(&mut *conn, &project.id, kept, &allowance).await?;
    let (files, bytes, stored_bytes) = content.columns();
    let promoted = sqlx::query!(
        "UPDATE deployments SET status = 'superseded', files = $2, bytes = $3, stored_bytes = $4
         WHERE id = $1 AND status = 'uploading'",
        id.as_str(),
        files,
        bytes,
        stored_bytes,
    )
    .execute(&mut *conn)
    .await?;
    if promoted.rows_affected() == 0 {
        return Err(UploadError::Gone);
    }
    Ok(go_live(conn, project, id, now).await?)
}

/// The reason a deployment cannot be activated.
#[derive(Debug, thiserror::Error)]
pub enum ActivateError {
    /// The project has no such deployment.
    #[error("no such deployment")]
    NotFound,
    /// The deployment is neither live nor superseded.
    #[error("a deployment that is {0:?} cannot be activated")]
    NotActivatable(DeploymentStatus),
    /// The operator has suspended the project or its owner.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Activates one of the project's deployments, even the live one, so that a repeated request gets its own receipt.
pub async fn activate(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
    id: &DeploymentId,
    now: Timestamp,
) -> Result<PendingChange, ActivateError> {
    lock_project(conn, &project.id).await?;
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    let status = status(conn, &project.id, id).await?.ok_or(ActivateError::NotFound)?;
    if !status.is_activatable() {
        return Err(ActivateError::NotActivatable(status));
    }
    Ok(go_live(conn, project, id, now).await?)
}

/// The reason a deployment was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteDeploymentError {
    /// The project has no such deployment.
    #[error("no such deployment")]
    NotFound,
    /// The deployment is live.
    #[error("the deployment is live")]
    Live,
    /// The operator has suspended the project or its owner.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Deletes a deployment that is not live, and queues its pack for removal. A pending upload fails when it would go
/// live.
pub async fn delete(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    id: &DeploymentId,
    now: Timestamp,
) -> Result<PendingChange, DeleteDeploymentError> {
    lock_project(conn, &project.id).await?;
    if let Some(suspended) = suspension::find_for_project(&mut *conn, &project.id).await? {
        return Err(suspended.into());
    }
    if status(conn, &project.id, id).await?.ok_or(DeleteDeploymentError::NotFound)? == DeploymentStatus::Live {
        return Err(DeleteDeploymentError::Live);
    }
    let counted_bytes = sqlx::query_scalar!(
        r#"DELETE FROM deployments WHERE id = $1
           RETURNING CASE WHEN status = 'superseded'
                          THEN greatest(COALESCE(stored_bytes, bytes) + $2::bigint, $3) ELSE 0 END AS "bytes!""#,
        id.as_str(),
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .fetch_one(&mut *conn)
    .await?;
    let deleted = pack_removals::DeletedPack { id: id.clone(), counted_bytes };
    pack_removals::queue(conn, &project.id, &[deleted], now).await?;
    Ok(PendingChange::new(&project.id).with_hosts(project.deployment_host(id)))
}

/// Deletes an upload that turned out to repeat an earlier one.
pub async fn discard(db: impl PgExecutor<'_>, id: &DeploymentId) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM deployments WHERE id = $1 AND status = 'uploading'", id.as_str())
        .execute(db)
        .await
        .map(drop)
}

/// Locks the project, and returns its current owner; `None` when it was deleted.
pub(crate) async fn lock_project(conn: &mut PgConnection, id: &ProjectId) -> Result<Option<Account>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT COALESCE(org_id, user_id) AS "owner!: Account" FROM projects WHERE id = $1 FOR UPDATE"#,
        id.as_str(),
    )
    .fetch_optional(conn)
    .await
}

async fn status(
    conn: &mut PgConnection,
    project: &ProjectId,
    id: &DeploymentId,
) -> Result<Option<DeploymentStatus>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT status FROM deployments WHERE project_id = $1 AND id = $2",
        project.as_str(),
        id.as_str(),
    )
    .fetch_optional(conn)
    .await
}

/// Points the project at the deployment. The caller has locked the project, and the deployment's files are complete.
async fn go_live<L>(
    conn: &mut PgConnection,
    project: &ProjectPermit<L>,
    id: &DeploymentId,
    now: Timestamp,
) -> Result<PendingChange, sqlx::Error> {
    // In this order, because a project never has two live deployments (`deployments_one_live`).
    sqlx::query!(
        "UPDATE deployments SET status = 'superseded', superseded_at = $3
         WHERE project_id = $1 AND status = 'live' AND id <> $2",
        project.id.as_str(),
        id.as_str(),
        now,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "UPDATE deployments d SET status = 'live', superseded_at = NULL, access_version = p.access_version
         FROM projects p WHERE d.id = $2 AND p.id = $1",
        project.id.as_str(),
        id.as_str(),
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!("UPDATE projects SET active_deployment_id = $2 WHERE id = $1", project.id.as_str(), id.as_str(),)
        .execute(&mut *conn)
        .await?;
    Ok(PendingChange::new(&project.id).with_hosts([project.host()]).with_hosts(project.deployment_host(id)))
}
