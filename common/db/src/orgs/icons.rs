//! The icons that organizations have uploaded.

use domain::{OrgId, OrgName, Timestamp, orgs::IconFormat};
use sqlx::{PgConnection, PgExecutor};

use crate::permits::{Admin, AtLeast, LockedOrg};

/// An icon to serve.
#[derive(Debug, Clone)]
pub struct OrgIcon {
    /// The organization whose icon it is.
    pub org: OrgId,
    /// The format of the bytes.
    pub format: IconFormat,
    /// The bytes.
    pub image: Vec<u8>,
    /// A string that changes with the bytes.
    pub version: String,
}

/// Stores an icon, replacing an earlier one.
pub async fn put(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    icon: &OrgIcon,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO org_icons (org_id, format, image, version, updated_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (org_id) DO UPDATE SET format = excluded.format, image = excluded.image,
             version = excluded.version, updated_at = excluded.updated_at",
        org.id.as_str(),
        icon.format as IconFormat,
        &icon.image,
        icon.version,
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Removes the icon. Returns false when there was none.
pub async fn remove(conn: &mut PgConnection, org: &LockedOrg<impl AtLeast<Admin>>) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!("DELETE FROM org_icons WHERE org_id = $1", org.id.as_str()).execute(conn).await?;
    Ok(removed.rows_affected() == 1)
}

/// Returns the version of the icon of the org called `name`, for conditional requests.
pub async fn find_version(db: impl PgExecutor<'_>, name: &OrgName) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT i.version FROM org_icons i JOIN orgs o ON o.id = i.org_id WHERE o.name = $1",
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Returns the icon of the org called `name`. Icons are public and require no permit.
pub async fn find(db: impl PgExecutor<'_>, name: &OrgName) -> Result<Option<OrgIcon>, sqlx::Error> {
    sqlx::query_as!(
        OrgIcon,
        "SELECT i.org_id AS org, i.format, i.image, i.version
           FROM org_icons i JOIN orgs o ON o.id = i.org_id WHERE o.name = $1",
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}
