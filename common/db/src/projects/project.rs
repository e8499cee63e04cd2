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
    /// The name, which is its subdomain.
    pub name: ProjectName,
    /// The account that owns it and that it counts against.
    pub owner: Account,
    /// The owning org.
    pub org_id: Option<OrgId>,
    /// The owning org's name.
    pub org: Option<OrgName>,
    /// The person who created the owning org; `None` once that account is deleted.
    pub org_creator: Option<UserId>,
    /// The live deployment.
    pub active_deployment_id: Option<DeploymentId>,
    /// The visitors who may see the site.
    pub access_mode: AccessMode,
    /// The three words of the share behind the project, if any.
    pub share_name: Option<ShareName>,
    /// The expiry time.
    pub expires_at: Option<Timestamp>,
    /// The creation time.
    pub created_at: Timestamp,
}

impl Project {
    /// Returns the account that pays for the project's usage.
    pub fn payer(&self) -> PayingAccount {
        PayingAccount::new(self.owner.clone(), self.org_creator.clone())
    }

    /// Returns the host that serves the live deployment.
    pub fn host(&self) -> HostKey {
        self.share_name.clone().map_or_else(|| HostKey::Project(self.name.clone()), HostKey::Share)
    }

    /// Returns the permanent host of one of the project's deployments; `None` behind a share.
    pub fn deployment_host(&self, id: &DeploymentId) -> Option<HostKey> {
        self.share_name.is_none().then(|| HostKey::Deployment(id.clone(), self.name.clone()))
    }
}

/// Reads `projects p` with orgs `o` as [`Project`]s, or as records with `more` columns; the first argument continues.
macro_rules! select_projects {
    (more $more:literal, $first:literal $(+ $rest:literal)* $(, $argument:expr)* $(,)?) => {
        $crate::projects::project::select_projects!(@ query!(), $more, $first $(+ $rest)* $(, $argument)*)
    };
    (@ $macro:ident!($($row:ty,)?), $more:literal, $first:literal $(+ $rest:literal)* $(, $argument:expr)*) => {
        sqlx::$macro!(
            $($row,)?
            r#"SELECT p.id, p.name, COALESCE(p.org_id, p.user_id) AS "owner!: ::domain::Account", p.org_id, o.name AS "org?", o.created_by AS "org_creator?: ::domain::UserId", p.active_deployment_id, p.access_mode, p.share_name,
                      p.expires_at, p.created_at"# + $more + "
               FROM projects p LEFT JOIN orgs o ON o.id = p.org_id
               " + $first $(+ $rest)*
            $(, $argument)*
        )
    };
    ($first:literal $(+ $rest:literal)* $(, $argument:expr)* $(,)?) => {
        $crate::projects::project::select_projects!(
            @ query_as!($crate::projects::project::Project,), "", $first $(+ $rest)* $(, $argument)*
        )
    };
}
pub(crate) use select_projects;

pub(super) async fn find(db: impl PgExecutor<'_>, id: &ProjectId) -> Result<Project, sqlx::Error> {
    select_projects!("WHERE p.id = $1", id.as_str()).fetch_one(db).await
}

/// The accounts whose projects are listed.
#[derive(Debug, Clone, Copy)]
pub enum ProjectOwners<'o> {
    /// One account.
    Account(&'o Account),
    /// A person and all organizations that the person is a member of.
    AllOf(&'o UserId),
}

/// The order of a list of projects, with the last project of the previous page; `None` for the first page.
#[derive(Debug, Clone)]
pub enum ProjectOrder {
    /// Newest first.
    Newest(Option<ProjectId>),
    /// By name.
    Name(Option<ProjectName>),
    /// By live deployment, newest first; projects without one come last, newest first.
    Deployed(Option<(Option<DeploymentId>, ProjectId)>),
}

/// Returns at most `rows` of the owners' projects, without shares, whose names contain `search` (in lower case).
pub async fn page(
    db: impl PgExecutor<'_>,
    owners: ProjectOwners<'_>,
    search: Option<&str>,
    order: &ProjectOrder,
    rows: i64,
) -> Result<Vec<Project>, sqlx::Error> {
    let (user, org, all) = match owners {
        ProjectOwners::Account(account) => (account.as_user(), account.as_org(), false),
        ProjectOwners::AllOf(person) => (Some(person), None, true),
    };
    // One form of owner condition, so that each order is a single statement that an index on owners answers.
    macro_rules! select_owned {
        ($rest:literal $(, $argument:expr)* $(,)?) => {
            select_projects!(
                "WHERE (p.user_id = $1 OR p.org_id = ANY(CASE WHEN $3 THEN ARRAY(SELECT org_id FROM org_members WHERE user_id = $1) ELSE ARRAY[$2] END))
                   AND p.share_name IS NULL AND ($4::text IS NULL OR strpos(p.name, $4) > 0) AND " + $rest,
                user.map(UserId::as_str),
                org.map(OrgId::as_str),
                all,
                search,
                rows
                $(, $argument)*
            )
        };
    }
    match order {
        ProjectOrder::Newest(after) => {
            let after = after.as_ref().map(ProjectId::as_str);
            select_owned!("($6::text IS NULL OR p.id < $6) ORDER BY p.id DESC LIMIT $5", after).fetch_all(db).await
        }
        ProjectOrder::Name(after) => {
            let after = after.as_ref().map(ProjectName::as_str);
            select_owned!("($6::text IS NULL OR p.name > $6) ORDER BY p.name LIMIT $5", after).fetch_all(db).await
        }
        ProjectOrder::Deployed(after) => {
            let deployment = after.as_ref().map(|(deployment, _)| deployment.as_ref().map_or("", DeploymentId::as_str));
            let project = after.as_ref().map(|(_, project)| project.as_str());
            select_owned!(
                "($6::text IS NULL OR (COALESCE(p.active_deployment_id, ''), p.id) < ($6, $7))
                 ORDER BY COALESCE(p.active_deployment_id, '') DESC, p.id DESC LIMIT $5",
                deployment,
                project,
            )
            .fetch_all(db)
            .await
        }
    }
}

/// Returns the project that has a custom domain.
pub async fn find_by_domain(db: impl PgExecutor<'_>, domain: &Hostname) -> Result<Option<Project>, sqlx::Error> {
    select_projects!("JOIN custom_domains d ON d.project_id = p.id WHERE d.domain = $1", domain.as_str())
        .fetch_optional(db)
        .await
}

/// Returns at most `rows` projects for which the push of a commit to a branch is queued.
pub async fn list_by_push(
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
