//! A project's row.

use domain::{
    Account, DeploymentId, Hostname, OrgId, OrgName, PayingAccount, ProjectId, ProjectName, ShareName, Timestamp,
    UserId, access::AccessMode, addresses::HostKey, repo::CommitSha,
};
use sqlx::PgExecutor;

/// A project's row, with its org's name.
#[derive(Debug, Clone)]
pub struct Project {
    /// The id.
    pub id: ProjectId,
    /// Its subdomain.
    pub name: ProjectName,
    /// The account that owns it, and that it counts against.
    pub owner: Account,
    /// The owning org.
    pub org_id: Option<OrgId>,
    /// The owning org's name.
    pub org: Option<OrgName>,
    /// The person who created the owning org; `None` once that account is gone.
    pub org_creator: Option<UserId>,
    /// The deployment that the project serves.
    pub active_deployment_id: Option<DeploymentId>,
    /// The visitors who may see the site.
    pub access_mode: AccessMode,
    /// The three words, when a share is behind it.
    pub share_name: Option<ShareName>,
    /// Time of expiry.
    pub expires_at: Option<Timestamp>,
    /// Time of creation.
    pub created_at: Timestamp,
}

impl Project {
    /// Returns the owner as who pays for what the project uses.
    pub fn payer(&self) -> PayingAccount {
        PayingAccount::new(self.owner.clone(), self.org_creator.clone())
    }

    /// Returns the host under which the active deployment is served.
    pub fn host(&self) -> HostKey {
        self.share_name.clone().map_or_else(|| HostKey::Project(self.name.clone()), HostKey::Share)
    }

    /// Returns the permanent host of one of the project's deployments; `None` behind a share.
    pub fn deployment_host(&self, id: &DeploymentId) -> Option<HostKey> {
        self.share_name.is_none().then(|| HostKey::Deployment(id.clone(), self.name.clone()))
    }
}

/// Reads `projects p` with their orgs `o`: as [`Project`]s, or as records with `more` columns. The first argument continues
/// the statement.
macro_rules! select_projects {
    (more $more:literal, $rest:literal $(, $argument:expr)* $(,)?) => {
        $crate::projects::project::select_projects!(@ query!(), $more, $rest $(, $argument)*)
    };
    (@ $macro:ident!($($row:ty,)?), $more:literal, $rest:literal $(, $argument:expr)*) => {
        sqlx::$macro!(
            $($row,)?
            r#"SELECT p.id, p.name, COALESCE(p.org_id, p.user_id) AS "owner!: ::domain::Account", p.org_id, o.name AS "org?", o.created_by AS "org_creator?: ::domain::UserId", p.active_deployment_id, p.access_mode, p.share_name,
                      p.expires_at, p.created_at"# + $more + "
               FROM projects p LEFT JOIN orgs o ON o.id = p.org_id
               " + $rest
            $(, $argument)*
        )
    };
    ($rest:literal $(, $argument:expr)* $(,)?) => {
        $crate::projects::project::select_projects!(
            @ query_as!($crate::projects::project::Project,), "", $rest $(, $argument)*
        )
    };
}
pub(crate) use select_projects;

/// Returns the project that was just inserted.
pub(super) async fn find(db: impl PgExecutor<'_>, id: &ProjectId) -> Result<Project, sqlx::Error> {
    select_projects!("WHERE p.id = $1", id.as_str()).fetch_one(db).await
}

/// Returns the owner's projects without shares, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    owner: &Account,
    before: Option<&ProjectId>,
    rows: i64,
) -> Result<Vec<Project>, sqlx::Error> {
    select_projects!(
        "WHERE (p.user_id = $1 OR p.org_id = $2) AND p.share_name IS NULL AND ($3::text IS NULL OR p.id < $3)
         ORDER BY p.id DESC LIMIT $4",
        owner.as_user().map(UserId::as_str),
        owner.as_org().map(OrgId::as_str),
        before.map(ProjectId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Returns a person's projects and those of all organizations that the person belongs to, as [`page`] does.
pub async fn page_of_all(
    db: impl PgExecutor<'_>,
    person: &UserId,
    before: Option<&ProjectId>,
    rows: i64,
) -> Result<Vec<Project>, sqlx::Error> {
    select_projects!(
        "WHERE (p.user_id = $1 OR p.org_id = ANY(ARRAY(SELECT org_id FROM org_members WHERE user_id = $1)))
           AND p.share_name IS NULL AND ($2::text IS NULL OR p.id < $2)
         ORDER BY p.id DESC LIMIT $3",
        person.as_str(),
        before.map(ProjectId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Returns the project that has a custom domain; `None` when none has.
pub async fn with_domain(db: impl PgExecutor<'_>, domain: &Hostname) -> Result<Option<Project>, sqlx::Error> {
    select_projects!("JOIN custom_domains d ON d.project_id = p.id WHERE d.domain = $1", domain.as_str())
        .fetch_optional(db)
        .await
}

/// Returns the projects for which the push of a commit to a branch is queued; at most `rows`.
pub async fn with_push(
    db: impl PgExecutor<'_>,
    repo_id: i64,
    branch: &str,
    sha: &CommitSha,
    rows: i64,
) -> Result<Vec<Project>, sqlx::Error> {
    select_projects!(
        "JOIN repo_links l ON l.project_id = p.id JOIN repo_deploys d ON d.project_id = p.id
         WHERE l.repo_id = $1 AND l.branch = $2 AND d.sha = $3 LIMIT $4",
        repo_id,
        branch,
        sha.as_str(),
        rows,
    )
    .fetch_all(db)
    .await
}
