//! `/projects/:name/deployments`.

use domain::{DeploymentId, ProjectName, Timestamp, deployment::DeploymentStatus};
use serde::{Deserialize, Serialize};

/// A deployment: an immutable set of files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Deployment {
    /// The deployment's id.
    pub id: DeploymentId,
    /// The state of the deployment.
    pub status: DeploymentStatus,
    /// The deployment's own address, which keeps serving it whatever the project serves.
    pub url: String,
    /// The time at which the upload started.
    pub created_at: Timestamp,
    /// The number of regular files.
    pub files: u32,
    /// The extracted size of all files, in bytes.
    pub bytes: u64,
    /// The upload's `X-Svc-Cli-Version`.
    pub cli_version: Option<String>,
    /// The upload's `X-Svc-Git-Sha`, or the commit of the deployed push.
    pub git_sha: Option<String>,
    /// The login of the person who uploaded the deployment, or the label of the deploy token.
    pub created_by: Option<String>,
    /// Whether the project serves this deployment.
    pub active: bool,
    /// The time from which the deployment may be deleted, at least 30 days after it was last served; absent for the
    /// live deployment and for those within the number that the plan retains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Why the deployment failed; absent unless it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The project that a deployment belongs to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentProject {
    /// The deployment's id.
    pub id: DeploymentId,
    /// The project's name.
    pub project: ProjectName,
}

/// A page of a project's deployments, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentList {
    /// The deployments of this page.
    pub deployments: Vec<Deployment>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The response to an upload of a deployment or of a share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Uploaded {
    /// The new deployment.
    pub deployment_id: DeploymentId,
    /// The address at which the deployment is served.
    pub url: String,
    /// The time at which it expires; null for ordinary projects.
    pub expires_at: Option<Timestamp>,
    /// Problems found, with reasons: ignored lines of `_headers` and `_redirects`, files of the archive that were left
    /// out, paths that the archive contained more than once with different contents, a missing `index.html`, and files
    /// that look private. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The response to an activation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activated {
    /// Always `true`.
    pub ok: bool,
    /// The deployment that the project serves now.
    pub active_deployment_id: DeploymentId,
}

/// The `?limit=` and `?cursor=` of a deployment's file list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct FilePage {
    /// The number of files to return: 1 to 1,000; 1,000 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 1_000))]
    pub limit: Option<String>,
    /// The `next_cursor` of the previous page; absent for the first page.
    pub cursor: Option<String>,
}

/// The `?format=` of a deployment's archive.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct ArchiveQuery {
    /// The format: `tar.gz` (the default) or `zip`.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub format: Option<ArchiveFormat>,
}

/// An archive format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ArchiveFormat {
    /// A gzip-compressed tarball.
    #[default]
    #[serde(rename = "tar.gz")]
    TarGz,
    /// A zip archive.
    #[serde(rename = "zip")]
    Zip,
}

impl ArchiveFormat {
    /// Returns the file name extension, without a leading dot; also the value of `?format=`.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::TarGz => "tar.gz",
            Self::Zip => "zip",
        }
    }
}

/// A file of a deployment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeployedFile {
    /// The path, without a leading slash.
    pub path: String,
    /// The size of the file, in bytes.
    pub size: u64,
    /// The SHA-256 of the file, in hex.
    pub sha256: String,
    /// The media type that the file is served with.
    pub content_type: String,
}

/// A page of a deployment's files, sorted by the bytes of their paths.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeployedFileList {
    /// The files of this page.
    pub files: Vec<DeployedFile>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The `?against=` of a deployment's changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct Against {
    /// The deployment to compare with; the previous one when absent.
    pub against: Option<DeploymentId>,
}

/// A file that only this deployment has, not the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AddedFile {
    /// The path, without a leading slash.
    pub path: String,
    /// The size of the file, in bytes.
    pub size: u64,
}

/// A file whose content differs between two deployments.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangedFile {
    /// The path, without a leading slash.
    pub path: String,
    /// The size of the file, in bytes.
    pub size: u64,
    /// The size of the file in the other deployment, in bytes.
    pub size_before: u64,
}

/// A file that only the other deployment has.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemovedFile {
    /// The path, without a leading slash.
    pub path: String,
    /// The size of the file in the other deployment, in bytes.
    pub size_before: u64,
}

/// The differences between the files of two deployments. Each list is sorted by path and has at most 1,000 files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentChanges {
    /// The other deployment; null if there is none, in which case every file counts as added.
    pub against: Option<DeploymentId>,
    /// The added files.
    pub added: Vec<AddedFile>,
    /// The files whose content differs.
    pub changed: Vec<ChangedFile>,
    /// The removed files.
    pub removed: Vec<RemovedFile>,
    /// The number of all added files.
    pub added_files: u32,
    /// The number of all files whose content differs.
    pub changed_files: u32,
    /// The number of all removed files.
    pub removed_files: u32,
    /// Whether a list is shorter than the number of files it stands for.
    pub truncated: bool,
}
