//! Links of projects to repositories. A link is live while the project has the owner that it had when it was linked,
//! and the installation still belongs to that owner or is shared with it. Everything here uses live links only.

use domain::{
    Account, OrgId, OrgName, ProjectId, ProjectName, Timestamp, UserId,
    audit::Action,
    repo::{Branch, CommitSha, Directory, RepoName},
};
use sqlx::{PgConnection, PgExecutor};

use crate::{
    audit::NewAuditEntry,
    code_host::installations::{self, ReportedInstallation},
    permits::{AtLeast, Deploy, Member, ProjectPermit},
};

/// A link, as shown with its project.
#[derive(Debug, Clone)]
pub struct RepoLink {
    /// The last known `owner/name`.
    pub repo: RepoName,
    /// The branch that deploys.
    pub branch: Branch,
    /// The folder that is published.
    pub directory: Directory,
    /// The reason for the delay of the newest push, in words for people; `None` if it only waits its turn.
    pub waits_for: Option<String>,
}

/// A link to create.
#[derive(Debug)]
pub struct NewLink<'a> {
    /// The installation through which the repository is read.
    pub installation: &'a ReportedInstallation,
    /// The code host's id of the repository.
    pub repo_id: i64,
    /// `owner/name`.
    pub repo: &'a RepoName,
    /// The picture of the repository's owner.
    pub owner_avatar_url: Option<&'a str>,
    /// The branch that deploys.
    pub branch: &'a Branch,
    /// The folder that is published.
    pub directory: &'a Directory,
    /// The head of the branch, or git's null id if it does not exist; `None` if the code host did not report it.
    pub head: Option<&'a CommitSha>,
    /// The time of the first check of the branch.
    pub check_head_at: Timestamp,
    /// The person who links.
    pub by: &'a UserId,
}

/// The reason a project was not linked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The project was deleted, or moved, meanwhile.
    #[error("the project is gone")]
    Gone,
    /// The installation is not shared with the project's org.
    #[error("the installation is not shared with the organization")]
    NotShared,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Links the project, replacing an earlier link and dropping its queued push.
pub async fn link(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    link: &NewLink<'_>,
    now: Timestamp,
) -> Result<(), LinkError> {
    // Lock the project, so that a concurrent transfer comes before this or ends the link after it.
    let org = sqlx::query_scalar!("SELECT org_id FROM projects WHERE id = $1 FOR UPDATE", project.id.as_str(),)
        .fetch_optional(&mut *conn)
        .await?
        .ok_or(LinkError::Gone)?;
    if org != project.org_id {
        return Err(LinkError::Gone);
    }
    installations::store(conn, link.installation).await?;
    sqlx::query!("DELETE FROM repo_links WHERE project_id = $1", project.id.as_str()).execute(&mut *conn).await?;
    let linked = sqlx::query!(
        "INSERT INTO repo_links
             (project_id, installation_id, org_id, repo_id, repo, owner_avatar_url, branch, directory, linked_by, linked_at,
              head_sha, check_head_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        project.id.as_str(),
        link.installation.id,
        project.org_id.as_ref().map(OrgId::as_str),
        link.repo_id,
        link.repo.as_str(),
        link.owner_avatar_url,
        link.branch.as_str(),
        link.directory.as_str(),
        link.by.as_str(),
        now,
        link.head.map(CommitSha::as_str),
        link.check_head_at,
    )
    .execute(conn)
    .await;
    match linked {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => Err(LinkError::NotShared),
        Err(error) => Err(error.into()),
    }
}

/// Ends the project's link. Returns false when there was none.
pub async fn unlink(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
) -> Result<bool, sqlx::Error> {
    end_link(conn, &project.id).await
}

/// Ends the project's link because the project gets another owner.
pub async fn end_link(conn: &mut PgConnection, project: &ProjectId) -> Result<bool, sqlx::Error> {
    let ended = sqlx::query!("DELETE FROM repo_links WHERE project_id = $1", project.as_str()).execute(conn).await?;
    Ok(ended.rows_affected() == 1)
}

/// Returns the project's link.
pub async fn find(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Deploy>>,
) -> Result<Option<RepoLink>, sqlx::Error> {
    sqlx::query_as!(
        RepoLink,
        r#"SELECT l.repo, l.branch, l.directory, d.waits_for AS "waits_for?"
           FROM repo_links l JOIN projects p ON p.id = l.project_id AND p.org_id IS NOT DISTINCT FROM l.org_id
           LEFT JOIN repo_deploys d ON d.project_id = l.project_id
           WHERE l.project_id = $1"#,
        project.id.as_str(),
    )
    .fetch_optional(db)
    .await
}

/// Updates the name of a repository.
pub async fn rename(conn: &mut PgConnection, repo_id: i64, repo: &RepoName) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE repo_links SET repo = $2 WHERE repo_id = $1 AND repo <> $2", repo_id, repo.as_str())
        .execute(conn)
        .await
        .map(drop)
}

/// Updates the repositories of an installation whose account was renamed.
pub async fn rename_owner(conn: &mut PgConnection, installation: i64, from: &str, to: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE repo_links SET repo = $3 || '/' || split_part(repo, '/', 2)
         WHERE installation_id = $1 AND lower(split_part(repo, '/', 1)) = lower($2)",
        installation,
        from,
        to,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Moves a repository to another account's installation. Links of orgs that share that installation continue; all
/// others end, because nobody has shown that they may read the repository there.
pub async fn transfer(conn: &mut PgConnection, repo_id: i64, installation: i64) -> Result<Vec<EndedLink>, sqlx::Error> {
    sqlx::query!(
        "UPDATE repo_links l SET installation_id = s.installation_id
         FROM installation_shares s
         WHERE l.repo_id = $1 AND l.installation_id <> $2 AND s.installation_id = $2 AND s.org_id = l.org_id",
        repo_id,
        installation,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query_as!(
        EndedLink,
        r#"WITH ended AS (DELETE FROM repo_links WHERE repo_id = $1 AND installation_id <> $2 RETURNING project_id)
           SELECT p.id AS project, p.name, COALESCE(p.org_id, p.user_id) AS "owner!: ::domain::Account",
                  p.org_id AS org, o.name AS "org_name?"
           FROM ended e JOIN projects p ON p.id = e.project_id LEFT JOIN orgs o ON o.id = p.org_id"#,
        repo_id,
        installation,
    )
    .fetch_all(conn)
    .await
}

/// A link that ended without anybody unlinking it.
#[derive(Debug)]
pub struct EndedLink {
    project: ProjectId,
    name: ProjectName,
    owner: Account,
    org: Option<OrgId>,
    org_name: Option<OrgName>,
}

impl EndedLink {
    /// Returns the audit log entry.
    pub fn entry(&self) -> NewAuditEntry {
        let entry =
            NewAuditEntry::for_personal_project(Action::RepoUnlink, self.owner.clone(), &self.project, &self.name);
        match self.org.as_ref().zip(self.org_name.as_ref()) {
            Some((id, name)) => entry.in_org(id, name),
            None => entry,
        }
    }
}

/// Ends links, optionally only those through an installation, of an org's projects, or to some repositories.
pub async fn end_links(
    conn: &mut PgConnection,
    installation: Option<i64>,
    org: Option<&OrgId>,
    repo_ids: Option<&[i64]>,
) -> Result<Vec<EndedLink>, sqlx::Error> {
    sqlx::query_as!(
        EndedLink,
        r#"WITH ended AS (
               DELETE FROM repo_links
               WHERE ($1::bigint IS NULL OR installation_id = $1) AND ($2::text IS NULL OR org_id = $2)
                 AND ($3::bigint[] IS NULL OR repo_id = ANY($3))
               RETURNING project_id)
           SELECT p.id AS project, p.name, COALESCE(p.org_id, p.user_id) AS "owner!: ::domain::Account",
                  p.org_id AS org, o.name AS "org_name?"
           FROM ended e JOIN projects p ON p.id = e.project_id LEFT JOIN orgs o ON o.id = p.org_id"#,
        installation,
        org.map(OrgId::as_str),
        repo_ids,
    )
    .fetch_all(conn)
    .await
}
