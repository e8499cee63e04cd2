//! `/projects`.

use domain::{DeploymentId, OrgName, ProjectId, ProjectName, Timestamp, names::NewProjectName};
use serde::{Deserialize, Serialize};

use super::{access::Access, deployments::Deployment, domains::Domain};

/// A project: a subdomain and what it serves.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its subdomain.
    pub name: ProjectName,
    /// The owning org; null for a personal project.
    pub org: Option<OrgName>,
    /// Where it is served.
    pub url: String,
    /// What it serves; null before the first deployment.
    pub active_deployment_id: Option<DeploymentId>,
    /// When it goes away; null for ordinary projects.
    pub expires_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A project with its newest deployments, domains and access mode.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectDetail {
    /// The project.
    #[serde(flatten)]
    pub project: Project,
    /// The 20 newest.
    pub deployments: Vec<Deployment>,
    /// Its custom domains.
    pub domains: Vec<Domain>,
    /// Who may see it.
    pub access: Access,
    /// The linked repository.
    pub repo: Option<Repo>,
}

/// A repository whose pushes deploy.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Repo {
    /// `owner/name` at the code host.
    pub repo: String,
    /// The branch that deploys.
    pub branch: String,
    /// The folder that is published.
    pub directory: String,
}

/// Projects, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectList {
    /// The projects.
    pub projects: Vec<Project>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// Moves a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransferProject {
    /// The org that is to own it; null makes it your personal project.
    #[serde(deserialize_with = "super::nullable")]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub org: Option<String>,
}

/// Makes a project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateProject {
    /// Its subdomain: globally unique.
    pub name: NewProjectName,
    /// The org that is to own it; personal when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org: Option<String>,
}
