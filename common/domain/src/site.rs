//! What an edge knows of a host: the site behind it, and who may see it.

use std::sync::Arc;

use crate::{DeploymentId, OrgId, ProjectId, Timestamp};

/// What an edge serves for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The project behind the host.
    pub project: ProjectId,
    /// What is served; none when nothing was deployed yet.
    pub deployment: Option<DeploymentId>,
    /// Which address of the project this is.
    pub kind: SiteKind,
    /// Who may see it.
    pub gate: Gate,
    /// The project's access version: the version a gate cookie must carry.
    pub access_version: i64,
    /// From when on it is gone.
    pub expires_at: Option<Timestamp>,
    /// Whether the operator has taken it down.
    pub suspended: bool,
}

/// Which address of a project a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteKind {
    /// The project's subdomain or custom domain: the active deployment.
    Live,
    /// One deployment's permanent address. Not for search engines.
    Deployment,
    /// A share. Not for search engines.
    Share,
}

/// Who may see a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Everybody.
    Public,
    /// Who knows the password: its argon2id hash.
    Password(Arc<str>),
    /// The members of the organization.
    Org(OrgId),
}
