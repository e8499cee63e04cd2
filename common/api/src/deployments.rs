//! `/projects/:name/deployments`.

use domain::{DeploymentId, Timestamp, deployment::DeploymentStatus};
use serde::{Deserialize, Serialize};

/// One immutable set of files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Deployment {
    /// Its id.
    pub id: DeploymentId,
    /// Where it stands.
    pub status: DeploymentStatus,
    /// Its own permanent address.
    pub url: String,
    /// When its upload began.
    pub created_at: Timestamp,
    /// Regular files in it.
    pub files: u32,
    /// Their size together, extracted.
    pub bytes: u64,
    /// `X-Svc-Cli-Version` of the upload.
    pub cli_version: Option<String>,
    /// `X-Svc-Git-Sha` of the upload.
    pub git_sha: Option<String>,
    /// Who uploaded it: a login, or a token's label.
    pub created_by: Option<String>,
    /// Whether it is what the project serves.
    pub active: bool,
    /// Why it failed; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Deployments of a project, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentList {
    /// The deployments.
    pub deployments: Vec<Deployment>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}

/// The answer to an upload, of a project's deployment or of a share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Uploaded {
    /// The new deployment.
    pub deployment_id: DeploymentId,
    /// Where it is served now.
    pub url: String,
    /// When it goes away; null for ordinary projects.
    pub expires_at: Option<Timestamp>,
    /// Lines of `_headers` and `_redirects` that were left out, and why; absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The answer to an activation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activated {
    /// Always true.
    pub ok: bool,
    /// What the project serves now.
    pub active_deployment_id: DeploymentId,
}
