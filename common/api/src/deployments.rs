//! `/projects/:name/deployments`.

use domain::{DeploymentId, Timestamp, deployment::DeploymentStatus};
use serde::{Deserialize, Serialize};

/// A deployment: one immutable set of files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Deployment {
    /// The deployment's id.
    pub id: DeploymentId,
    /// The state of the deployment.
    pub status: DeploymentStatus,
    /// The deployment's own address, which stays the same whatever the project serves.
    pub url: String,
    /// The time at which the upload began.
    pub created_at: Timestamp,
    /// The number of regular files.
    pub files: u32,
    /// The extracted size of all files, in bytes.
    pub bytes: u64,
    /// The upload's `X-Svc-Cli-Version`.
    pub cli_version: Option<String>,
    /// The upload's `X-Svc-Git-Sha`, or the commit of the push that was deployed.
    pub git_sha: Option<String>,
    /// The login of the person who uploaded the deployment, or the label of the deploy token.
    pub created_by: Option<String>,
    /// Whether the project serves this deployment.
    pub active: bool,
    /// The reason why the deployment failed; absent unless it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A page of a project's deployments, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentList {
    /// The deployments of this page.
    pub deployments: Vec<Deployment>,
    /// The `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// The answer to an upload, of a project's deployment or of a share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Uploaded {
    /// The new deployment.
    pub deployment_id: DeploymentId,
    /// The address at which the deployment is served.
    pub url: String,
    /// The time at which it expires; null for ordinary projects.
    pub expires_at: Option<Timestamp>,
    /// The lines of `_headers` and `_redirects` that were left out, with the reasons; absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The answer to an activation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activated {
    /// Always `true`.
    pub ok: bool,
    /// The deployment that the project serves now.
    pub active_deployment_id: DeploymentId,
}
