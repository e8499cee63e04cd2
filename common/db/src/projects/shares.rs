//! Shares: ephemeral projects with an address of three words.

use std::time::Duration;

use domain::{
    Account, DeploymentId, ProjectId, ProjectName, ShareName, Timestamp, UserId,
    addresses::HostKey,
    changes::PendingChange,
    plans::{LimitReached, Plans},
};
use sqlx::{PgConnection, PgExecutor};

use super::{
    deployments::{UploadContent, UploadOrigin},
    lifecycle,
    suspension::{self, SuspendedError},
};
use crate::{
    billing::plan,
    quotas::{self, QuotaError},
};

/// A live share.
#[derive(Debug, Clone)]
pub struct Share {
    /// The project's id.
    pub id: ProjectId,
    /// The three words.
    pub name: ShareName,
    /// The `tmp-…` project.
    pub project: ProjectName,
    /// The expiry time.
    pub expires_at: Timestamp,
    /// The creation time.
    pub created_at: Timestamp,
    /// The number of regular files.
    pub files: i32,
    /// The total size of the extracted files, in bytes.
    pub bytes: i64,
    /// Whether visitors need a password.
    pub protected: bool,
}

/// A share to create, whose pack is already written.
#[derive(Debug)]
pub struct NewShare<'a> {
    /// The owner.
    pub user: &'a UserId,
    /// The three words.
    pub name: &'a ShareName,
    /// The deployment whose pack is written.
    pub deployment: &'a DeploymentId,
    /// The origin of the upload.
    pub origin: &'a UploadOrigin,
    /// Number and size of the files.
    pub content: UploadContent,
    /// The hash of the password, if visitors need one.
    pub password_hash: Option<&'a str>,
    /// The expiry time.
    pub expires_at: Timestamp,
}

/// A created share.
#[derive(Debug)]
pub struct CreatedShare {
    /// The id of its project.
    pub id: ProjectId,
    /// The name of its project.
    pub project: ProjectName,
    /// The new address.
    pub touched: PendingChange,
}

/// The reason a share was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateShareError {
    /// The three words or the project's name are in use; retry with others.
    #[error("the name is taken")]
    NameTaken,
    /// The operator has suspended the person.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The person's plan allows no more shares, or no more files.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<QuotaError> for CreateShareError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

/// Creates a share with its project and deployment, live from the commit on, if the person's plan has room.
pub async fn create(
    conn: &mut PgConnection,
    new: NewShare<'_>,
    plans: &Plans,
    now: Timestamp,
) -> Result<CreatedShare, CreateShareError> {
    let owner = Account::User(new.user.clone());
    let allowance = plan::lock_allowance(conn, plans, &owner).await?;
    if let Some(suspended) = suspension::find_for_account(&mut *conn, &owner).await? {
        return Err(suspended.into());
    }
    quotas::shares(&mut *conn, new.user, &allowance, now).await?;
    quotas::stored_bytes(&mut *conn, &owner, new.content.counted_bytes(), &allowance).await?;
    quotas::deleted_bytes(&mut *conn, &owner, &allowance, now).await?;
    let id = ProjectId::new(now);
    let project = ProjectName::ephemeral();
    let (files, bytes, stored_bytes) = new.content.columns();
    let created = sqlx::query!(
        "INSERT INTO projects (id, name, user_id, active_deployment_id, access_mode, password_hash, share_name,
                               expires_at, created_at)
         VALUES ($1, $2, $3, $4, CASE WHEN $5::text IS NULL THEN 'public' ELSE 'password' END, $5, $6, $7, $8)
         ON CONFLICT DO NOTHING",
        id.as_str(),
        project.as_str(),
        new.user.as_str(),
        new.deployment.as_str(),
        new.password_hash,
        new.name.as_str(),
        new.expires_at,
        now,
    )
    .execute(&mut *conn)
    .await?;
    if created.rows_affected() == 0 {
        return Err(CreateShareError::NameTaken);
    }
    sqlx::query!(
        "INSERT INTO deployments (id, project_id, status, files, bytes, cli_version, git_sha, created_by,
                                  access_version, created_at, stored_bytes)
         SELECT $1, p.id, 'live', $3, $4, $5, $6, $7, p.access_version, $8, $9 FROM projects p WHERE p.id = $2",
        new.deployment.as_str(),
        id.as_str(),
        files,
        bytes,
        new.origin.cli_version,
        new.origin.git_sha,
        new.origin.created_by,
        now,
        stored_bytes,
    )
    .execute(&mut *conn)
    .await?;
    let touched = PendingChange::new(&id).with_hosts([HostKey::Share(new.name.clone())]);
    Ok(CreatedShare { id, project, touched })
}

/// Returns the user's shares that have not expired, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    user: &UserId,
    before: Option<&ProjectId>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<Share>, sqlx::Error> {
    sqlx::query_as!(
        Share,
        r#"SELECT p.id, p.share_name AS "name!", p.name AS project,
                  p.expires_at AS "expires_at!", p.created_at,
                  d.files, d.bytes, p.access_mode = 'password' AS "protected!"
           FROM projects p JOIN deployments d ON d.id = p.active_deployment_id
           WHERE p.user_id = $1 AND p.share_name IS NOT NULL AND p.expires_at > $2
             AND ($3::text IS NULL OR p.id < $3)
           ORDER BY p.id DESC LIMIT $4"#,
        user.as_str(),
        now,
        before.map(ProjectId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Returns the project behind the user's own share of this name.
pub async fn find_project(
    db: impl PgExecutor<'_>,
    user: &UserId,
    name: &ShareName,
) -> Result<Option<ProjectName>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT name FROM projects WHERE user_id = $1 AND share_name = $2",
        user.as_str(),
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Deletes at most `limit` shares, with everything they own, that have expired by both `now` and the clock of Postgres.
pub async fn remove_expired(
    conn: &mut PgConnection,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<PendingChange>, sqlx::Error> {
    let expired = sqlx::query!(
        r#"SELECT id, share_name AS "name!" FROM projects
           WHERE share_name IS NOT NULL AND expires_at <= least($1, now())
           ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED"#,
        now,
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut touched = Vec::with_capacity(expired.len());
    for share in expired {
        touched.extend(lifecycle::remove(conn, &share.id, &HostKey::Share(share.name), now, Duration::ZERO).await?);
    }
    Ok(touched)
}
