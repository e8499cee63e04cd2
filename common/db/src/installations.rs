//! Installations of our app at the code host, and the orgs they are shared with.

use domain::{OrgId, OrgName, Timestamp, UserId, role::Role};
use sqlx::{PgConnection, PgExecutor};

use super::{
    orgs::{AtLeast, Member, Permit},
    projects,
    repo_links::{self, Ended},
};

/// An installation, as the code host tells of it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The code host's id.
    pub id: i64,
    /// The login of the account it is installed on.
    pub account: String,
    /// That account's id.
    pub account_id: i64,
    /// `User` or `Organization`.
    pub account_type: String,
    /// That account's picture.
    pub avatar_url: Option<String>,
    /// When it was installed.
    pub created_at: Timestamp,
    /// When it was suspended.
    pub suspended_at: Option<Timestamp>,
}

/// An installation that is shared with an org.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The code host's id.
    pub id: i64,
    /// The login of the account it is installed on.
    pub account: String,
    /// `User` or `Organization`.
    pub account_type: String,
    /// When it was installed.
    pub created_at: Timestamp,
    /// The org.
    pub org: OrgName,
    /// Who shared it.
    pub shared_by: UserId,
    /// Their login.
    pub shared_by_login: String,
}

/// Keeps what the code host says of an installation.
pub async fn remember(conn: &mut PgConnection, seen: &Seen) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO installations (id, account, account_id, account_type, avatar_url, created_at, suspended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (id) DO UPDATE SET account = excluded.account, account_id = excluded.account_id,
             account_type = excluded.account_type, avatar_url = excluded.avatar_url,
             suspended_at = excluded.suspended_at",
        seen.id,
        seen.account,
        seen.account_id,
        seen.account_type,
        seen.avatar_url,
        seen.created_at as Timestamp,
        seen.suspended_at as Option<Timestamp>,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Installations shared with any org that the user belongs to, newest first.
pub async fn shared_with_user(db: impl PgExecutor<'_>, user: &UserId) -> Result<Vec<Shared>, sqlx::Error> {
    sqlx::query_as!(
        Shared,
        r#"SELECT i.id, i.account, i.account_type, i.created_at AS "created_at: Timestamp", o.name AS "org: OrgName",
                  s.shared_by AS "shared_by: UserId", u.vcs_login AS shared_by_login
           FROM installation_shares s
           JOIN org_members m ON m.org_id = s.org_id AND m.user_id = $1
           JOIN installations i ON i.id = s.installation_id
           JOIN orgs o ON o.id = s.org_id
           JOIN users u ON u.id = s.shared_by
           ORDER BY i.created_at DESC, i.id DESC"#,
        user.as_str(),
    )
    .fetch_all(db)
    .await
}

/// Forgets an installation that is gone at the code host, and with it who it was shared with. Its links end first: see
/// [`repo_links::end_all`].
pub async fn forget(conn: &mut PgConnection, id: i64) -> Result<Option<(OrgId, OrgName)>, sqlx::Error> {
    let org = sqlx::query!(
        r#"SELECT o.id AS "id: OrgId", o.name AS "name: OrgName"
           FROM installation_shares s JOIN orgs o ON o.id = s.org_id WHERE s.installation_id = $1"#,
        id,
    )
    .fetch_optional(&mut *conn)
    .await?;
    sqlx::query!("DELETE FROM installations WHERE id = $1", id).execute(conn).await?;
    Ok(org.map(|org| (org.id, org.name)))
}

/// Notes that the code host suspended the installation, or lifted the suspension.
pub async fn set_suspended(conn: &mut PgConnection, id: i64, at: Option<Timestamp>) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE installations SET suspended_at = $2 WHERE id = $1", id, at as Option<Timestamp>)
        .execute(conn)
        .await
        .map(drop)
}

/// Follows the account of an installation to its new login and picture.
pub async fn rename(
    conn: &mut PgConnection,
    id: i64,
    account: &str,
    avatar_url: Option<&str>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE installations SET account = $2, avatar_url = coalesce($3, avatar_url) WHERE id = $1",
        id,
        account,
        avatar_url,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// The picture that stands for an org without an icon: of the owner of a repository that one of its projects is linked
/// to, else of an account whose installation is shared with it; the oldest of each.
pub async fn avatar_of_org(db: impl PgExecutor<'_>, org: &OrgId) -> Result<Option<String>, sqlx::Error> {
    let found = sqlx::query_scalar!(
        r#"SELECT url AS "url!" FROM (
               (SELECT 1 AS rank, l.owner_avatar_url AS url
                FROM repo_links l JOIN projects p ON p.id = l.project_id AND p.org_id = l.org_id
                WHERE l.org_id = $1 AND l.owner_avatar_url IS NOT NULL ORDER BY l.linked_at, l.project_id LIMIT 1)
               UNION ALL
               (SELECT 2, i.avatar_url FROM installation_shares s JOIN installations i ON i.id = s.installation_id
                WHERE s.org_id = $1 AND i.avatar_url IS NOT NULL ORDER BY s.shared_at, i.id LIMIT 1)
           ) found ORDER BY rank LIMIT 1"#,
        org.as_str(),
    )
    .fetch_optional(db)
    .await?;
    Ok(found)
}

/// Installations shared with the org, newest first.
pub async fn shared_with_org(
    db: impl PgExecutor<'_>,
    org: &Permit<impl AtLeast<Member>>,
) -> Result<Vec<Shared>, sqlx::Error> {
    sqlx::query_as!(
        Shared,
        r#"SELECT i.id, i.account, i.account_type, i.created_at AS "created_at: Timestamp", o.name AS "org: OrgName",
                  s.shared_by AS "shared_by: UserId", u.vcs_login AS shared_by_login
           FROM installation_shares s
           JOIN installations i ON i.id = s.installation_id
           JOIN orgs o ON o.id = s.org_id
           JOIN users u ON u.id = s.shared_by
           WHERE s.org_id = $1 ORDER BY i.created_at DESC, i.id DESC"#,
        org.id.as_str(),
    )
    .fetch_all(db)
    .await
}

/// One of the installations that are shared with a project's org.
pub async fn shared_with_project(
    db: impl PgExecutor<'_>,
    project: &projects::Permit<impl projects::AtLeast<projects::Edit>>,
    id: i64,
) -> Result<Option<Shared>, sqlx::Error> {
    sqlx::query_as!(
        Shared,
        r#"SELECT i.id, i.account, i.account_type, i.created_at AS "created_at: Timestamp", o.name AS "org: OrgName",
                  s.shared_by AS "shared_by: UserId", u.vcs_login AS shared_by_login
           FROM installation_shares s
           JOIN installations i ON i.id = s.installation_id
           JOIN orgs o ON o.id = s.org_id
           JOIN users u ON u.id = s.shared_by
           WHERE s.org_id = $1 AND i.id = $2"#,
        project.org_id.as_ref().map(OrgId::as_str),
        id,
    )
    .fetch_optional(db)
    .await
}

/// Why an installation was not shared.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// Another org has it.
    #[error("the installation is shared with another organization")]
    Elsewhere,
    /// The sharer left the org, or the org was deleted, meanwhile.
    #[error("the sharer belongs to the organization no more")]
    Gone,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Shares one of the actor's own installations with the org; fine when it is shared with it already. Whether it is new
/// there.
pub async fn share(
    conn: &mut PgConnection,
    org: &Permit<impl AtLeast<Member>>,
    seen: &Seen,
    now: Timestamp,
) -> Result<bool, ShareError> {
    remember(conn, seen).await?;
    let inserted = sqlx::query!(
        "INSERT INTO installation_shares (installation_id, org_id, shared_by, shared_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (installation_id) DO NOTHING",
        seen.id,
        org.id.as_str(),
        org.user().as_str(),
        now as Timestamp,
    )
    .execute(&mut *conn)
    .await;
    match inserted {
        Ok(inserted) if inserted.rows_affected() == 1 => return Ok(true),
        Ok(_) => {}
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => return Err(ShareError::Gone),
        Err(error) => return Err(error.into()),
    }
    // A statement of its own: it sees the row that stood in the way.
    let holder = sqlx::query_scalar!(
        r#"SELECT org_id AS "org_id: OrgId" FROM installation_shares WHERE installation_id = $1"#,
        seen.id,
    )
    .fetch_optional(conn)
    .await?;
    if holder.as_ref() == Some(&org.id) { Ok(false) } else { Err(ShareError::Elsewhere) }
}

/// Why an installation is shared on.
#[derive(Debug, thiserror::Error)]
pub enum UnshareError {
    /// It is not shared with the org.
    #[error("the installation is not shared with the organization")]
    NotFound,
    /// Somebody else shared it, and the actor is no admin.
    #[error("somebody else shared the installation")]
    Role,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Ends the sharing, and the links of the org's projects that rest on it. Which projects those were.
pub async fn unshare(
    conn: &mut PgConnection,
    org: &Permit<impl AtLeast<Member>>,
    id: i64,
) -> Result<Vec<Ended>, UnshareError> {
    // Locked, so that nobody links to it meanwhile.
    let shared_by = sqlx::query_scalar!(
        r#"SELECT shared_by AS "shared_by: UserId" FROM installation_shares
           WHERE installation_id = $1 AND org_id = $2 FOR UPDATE"#,
        id,
        org.id.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(UnshareError::NotFound)?;
    if shared_by != *org.user() && org.role() < Role::Admin {
        return Err(UnshareError::Role);
    }
    let unlinked = repo_links::end_all(&mut *conn, Some(id), Some(&org.id), None).await?;
    sqlx::query!("DELETE FROM installation_shares WHERE installation_id = $1", id).execute(conn).await?;
    Ok(unlinked)
}
