//! `/projects`.

use domain::{
    DeploymentId, Hostname, OrgName, ProjectId, ProjectName, Timestamp, names::NewProjectName, site::Suspension,
};
use serde::{Deserialize, Serialize};

use super::{access::Access, deployments::Deployment, domains::Domain};

/// A project: a subdomain and what it serves.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Project {
    /// The project's id.
    pub id: ProjectId,
    /// The project's name, which is its subdomain.
    pub name: ProjectName,
    /// The name of the organization that owns the project; null for a personal project.
    pub org: Option<OrgName>,
    /// The address at which the project is served.
    pub url: String,
    /// The deployment that the project serves; null before the first one.
    pub active_deployment_id: Option<DeploymentId>,
    /// The time at which the project expires; null for ordinary projects.
    pub expires_at: Option<Timestamp>,
    /// The time at which the project was created.
    pub created_at: Timestamp,
}

/// A project with its newest deployments, domains, access mode and repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectDetail {
    /// The project.
    #[serde(flatten)]
    pub project: Project,
    /// The 20 newest deployments.
    pub deployments: Vec<Deployment>,
    /// The project's custom domains.
    pub domains: Vec<Domain>,
    /// The access mode of the project's site.
    pub access: Access,
    /// The repository whose pushes deploy the project; null when none is linked.
    pub repo: Option<Repo>,
}

/// A repository whose pushes deploy a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Repo {
    /// The repository as `owner/name` at the code host.
    pub repo: String,
    /// The branch whose pushes deploy.
    pub branch: String,
    /// The folder of the repository that is published.
    pub directory: String,
    /// The reason, other than its turn, for which the newest push waits, such as room on the server's disk; null if
    /// none.
    #[serde(default)]
    pub waits_for: Option<String>,
}

/// A page of projects.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectList {
    /// The projects of this page.
    pub projects: Vec<ListedProject>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

impl ProjectList {
    /// Returns the projects without their summaries, and the cursor of the next page.
    pub fn into_projects(self) -> (Vec<Project>, Option<String>) {
        (self.projects.into_iter().map(|listed| listed.project).collect(), self.next_cursor)
    }
}

/// A project in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListedProject {
    /// The project.
    #[serde(flatten)]
    pub project: Project,
    /// A summary; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub summary: Option<ProjectSummary>,
}

/// A project's status at a glance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectSummary {
    /// The time of the deployment that is live; null before the first one.
    pub deployed_at: Option<Timestamp>,
    /// Whether the newest deployment failed.
    pub last_failed: bool,
    /// Why the operator suspended the project or its owner; null if it is served.
    pub suspended: Option<Suspension>,
    /// Bytes that its deployments occupy in the store.
    pub stored_bytes: u64,
    /// The number of domains that need somebody to change something before their visitors are served.
    pub domains_blocked: u32,
    /// The number of domains whose certificates are on their way.
    pub domains_coming: u32,
    /// Requests in each of the last 24 hours; null if traffic is not counted, and for `deploy` tokens.
    pub hours: Option<Vec<HourRequests>>,
}

/// The requests of one hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HourRequests {
    /// The start of the hour.
    pub hour: Timestamp,
    /// The number of requests in that hour.
    pub requests: u64,
}

/// A project that was deleted and can be restored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedProject {
    /// The project's id, needed to restore it.
    pub id: ProjectId,
    /// The name that it had.
    pub name: ProjectName,
    /// The name of the organization that owned it; null for a personal project.
    pub org: Option<OrgName>,
    /// The custom domains that it had. They are restored too, unless another project has attached them meanwhile.
    #[serde(default)]
    pub domains: Vec<Hostname>,
    /// The time at which it was deleted.
    pub deleted_at: Timestamp,
    /// The time until which it can be restored.
    pub restorable_until: Timestamp,
}

/// A page of deleted projects, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedProjectList {
    /// The deleted projects of this page.
    pub projects: Vec<DeletedProject>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The request to restore a deleted project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestoreProject {
    /// The new name; the former one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<NewProjectName>,
}

/// The request to move a project to another owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransferProject {
    /// The name of the new owning organization; null makes it the caller's personal project.
    #[serde(deserialize_with = "super::nullable")]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub org: Option<String>,
}

/// The request to create a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateProject {
    /// The name, and subdomain: globally unique. Once deleted, it stays reserved for its former owner for 30 days.
    pub name: NewProjectName,
    /// The name of the owning organization; the project is personal when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org: Option<String>,
}
