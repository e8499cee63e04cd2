//! The sharing of installations with orgs.

use domain::{Timestamp, role::Role};
use sqlx::PgConnection;

use super::{
    installations::{self, ReportedInstallation},
    repo_links::{self, EndedLink},
};
use crate::permits::{AtLeast, Member, OrgPermit};

/// The reason an installation was not shared.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// Another org has it.
    #[error("the installation is shared with another organization")]
    Elsewhere,
    /// The sharer left the org, or the org was deleted, meanwhile.
    #[error("the sharer belongs to the organization no more")]
    Gone,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Shares one of the actor's own installations with the org. Returns false when it is already shared with it.
pub async fn share(
    conn: &mut PgConnection,
    org: &OrgPermit<impl AtLeast<Member>>,
    seen: &ReportedInstallation,
    now: Timestamp,
) -> Result<bool, ShareError> {
    installations::store(conn, seen).await?;
    let inserted = sqlx::query!(
        "INSERT INTO installation_shares (installation_id, org_id, shared_by, shared_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (installation_id) DO NOTHING",
        seen.id,
        org.id.as_str(),
        org.user().as_str(),
        now,
    )
    .execute(&mut *conn)
    .await;
    match inserted {
        Ok(inserted) if inserted.rows_affected() == 1 => return Ok(true),
        Ok(_) => {}
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => return Err(ShareError::Gone),
        Err(error) => return Err(error.into()),
    }
    // A separate statement, so that it sees the row that caused the conflict.
    let holder = sqlx::query_scalar!("SELECT org_id FROM installation_shares WHERE installation_id = $1", seen.id,)
        .fetch_optional(conn)
        .await?;
    if holder.as_ref() == Some(&org.id) { Ok(false) } else { Err(ShareError::Elsewhere) }
}

/// The reason an installation is still shared.
#[derive(Debug, thiserror::Error)]
pub enum UnshareError {
    /// The installation is not shared with the org.
    #[error("the installation is not shared with the organization")]
    NotFound,
    /// Another member shared it, and the actor is not an admin.
    #[error("somebody else shared the installation")]
    Role,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Stops sharing the installation, and ends and returns the links of the org's projects that depend on it.
pub async fn unshare(
    conn: &mut PgConnection,
    org: &OrgPermit<impl AtLeast<Member>>,
    id: i64,
) -> Result<Vec<EndedLink>, UnshareError> {
    // Lock the share, so that nobody links to it meanwhile.
    let shared_by = sqlx::query_scalar!(
        "SELECT shared_by FROM installation_shares
           WHERE installation_id = $1 AND org_id = $2 FOR UPDATE",
        id,
        org.id.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(UnshareError::NotFound)?;
    if shared_by != *org.user() && org.role() < Role::Admin {
        return Err(UnshareError::Role);
    }
    let unlinked = repo_links::end_links(&mut *conn, Some(id), Some(&org.id), None).await?;
    sqlx::query!("DELETE FROM installation_shares WHERE installation_id = $1", id).execute(conn).await?;
    Ok(unlinked)
}
