//! The icons that organizations have uploaded.

use domain::{OrgName, Timestamp, orgs::IconFormat};
use sqlx::{PgConnection, PgExecutor};

use super::orgs::{Admin, AtLeast, Locked};

/// An icon as it is served.
#[derive(Debug, Clone)]
pub struct Icon {
    /// What its bytes are.
    pub format: IconFormat,
    /// The bytes.
    pub image: Vec<u8>,
    /// Changes with the bytes.
    pub version: String,
}

/// Puts an icon in the place of what was there.
pub async fn put(
    conn: &mut PgConnection,
    org: &Locked<impl AtLeast<Admin>>,
    icon: &Icon,
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
        now as Timestamp,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Removes the icon. False when there was none.
pub async fn remove(conn: &mut PgConnection, org: &Locked<impl AtLeast<Admin>>) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!("DELETE FROM org_icons WHERE org_id = $1", org.id.as_str()).execute(conn).await?;
    Ok(removed.rows_affected() == 1)
}

/// The version of the icon of the org called `name`: for whom has it already.
pub async fn find_version(db: impl PgExecutor<'_>, name: &OrgName) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT i.version FROM org_icons i JOIN orgs o ON o.id = i.org_id WHERE o.name = $1",
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// The icon of the org called `name`. It is public: no permit is asked for.
pub async fn find(db: impl PgExecutor<'_>, name: &OrgName) -> Result<Option<Icon>, sqlx::Error> {
    sqlx::query_as!(
        Icon,
        r#"SELECT i.format AS "format: IconFormat", i.image, i.version
           FROM org_icons i JOIN orgs o ON o.id = i.org_id WHERE o.name = $1"#,
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}
