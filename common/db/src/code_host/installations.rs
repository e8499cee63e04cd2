//! Installations of our app at the code host, and the orgs that they are shared with.

use domain::{OrgId, OrgName, Timestamp, UserId};
use sqlx::{PgConnection, PgExecutor};

use crate::permits::{AtLeast, Member, OrgPermit, ProjectPermit};

/// An installation, as the code host reports it.
#[derive(Debug, Clone)]
pub struct ReportedInstallation {
    /// The code host's id.
    pub id: i64,
    /// The login of the account that it is installed on.
    pub account: String,
    /// That account's id.
    pub account_id: i64,
    /// `User` or `Organization`.
    pub account_type: String,
    /// That account's picture.
    pub avatar_url: Option<String>,
    /// The time of the installation.
    pub created_at: Timestamp,
    /// The time of the suspension; `None` when it is not suspended.
    pub suspended_at: Option<Timestamp>,
}

/// An installation that is shared with an org.
#[derive(Debug, Clone)]
pub struct SharedInstallation {
    /// The code host's id.
    pub id: i64,
    /// The login of the account that it is installed on.
    pub account: String,
    /// `User` or `Organization`.
    pub account_type: String,
    /// The time of the installation.
    pub created_at: Timestamp,
    /// The org.
    pub org: OrgName,
    /// The person who shared it.
    pub shared_by: UserId,
    /// The login of that person.
    pub shared_by_login: String,
}

/// Stores an installation as the code host reports it.
pub async fn store(conn: &mut PgConnection, seen: &ReportedInstallation) -> Result<(), sqlx::Error> {
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
        seen.created_at,
        seen.suspended_at,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Reads the shares `s` of installations `i`; the first argument continues the statement.
macro_rules! select_shared {
    ($rest:literal, $($argument:expr),* $(,)?) => {
        sqlx::query_as!(
            SharedInstallation,
            "SELECT i.id, i.account, i.account_type, i.created_at, o.name AS org, s.shared_by,
                    u.vcs_login AS shared_by_login
             FROM installation_shares s
             JOIN installations i ON i.id = s.installation_id
             JOIN orgs o ON o.id = s.org_id
             JOIN users u ON u.id = s.shared_by
             " + $rest,
            $($argument),*
        )
    };
}

/// Returns the installations shared with any of the user's orgs, newest first.
pub async fn shared_with_user(db: impl PgExecutor<'_>, user: &UserId) -> Result<Vec<SharedInstallation>, sqlx::Error> {
    select_shared!(
        "JOIN org_members m ON m.org_id = s.org_id
         WHERE m.user_id = $1 ORDER BY i.created_at DESC, i.id DESC",
        user.as_str(),
    )
    .fetch_all(db)
    .await
}

/// Deletes an installation that was removed at the code host, and returns the org that it was shared with. The caller
/// has ended its links with [`super::repo_links::end_links`].
pub async fn delete(conn: &mut PgConnection, id: i64) -> Result<Option<(OrgId, OrgName)>, sqlx::Error> {
    let org = sqlx::query!(
        "SELECT o.id, o.name
           FROM installation_shares s JOIN orgs o ON o.id = s.org_id WHERE s.installation_id = $1",
        id,
    )
    .fetch_optional(&mut *conn)
    .await?;
    sqlx::query!("DELETE FROM installations WHERE id = $1", id).execute(conn).await?;
    Ok(org.map(|org| (org.id, org.name)))
}

/// Records that the code host suspended the installation or lifted the suspension.
pub async fn set_suspended(conn: &mut PgConnection, id: i64, at: Option<Timestamp>) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE installations SET suspended_at = $2 WHERE id = $1", id, at).execute(conn).await.map(drop)
}

/// Updates the login and picture of an installation's account.
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

/// Returns the picture for an org without an icon: that of the owner of a repository that one of its projects is linked
/// to, otherwise of an account whose installation is shared with it. The oldest link or share decides.
pub async fn find_org_avatar(db: impl PgExecutor<'_>, org: &OrgId) -> Result<Option<String>, sqlx::Error> {
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

/// Returns the installations shared with the org, newest first.
pub async fn shared_with_org(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Member>>,
) -> Result<Vec<SharedInstallation>, sqlx::Error> {
    select_shared!("WHERE s.org_id = $1 ORDER BY i.created_at DESC, i.id DESC", org.id.as_str(),).fetch_all(db).await
}

/// Returns the installation `id` if it is shared with the project's org.
pub async fn shared_with_project(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Member>>,
    id: i64,
) -> Result<Option<SharedInstallation>, sqlx::Error> {
    select_shared!("WHERE s.org_id = $1 AND i.id = $2", project.org_id.as_ref().map(OrgId::as_str), id,)
        .fetch_optional(db)
        .await
}
