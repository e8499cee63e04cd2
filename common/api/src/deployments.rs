//! `/projects/:name/deployments`.

use domain::{DeploymentId, ProjectName, Timestamp, deployment::DeploymentStatus};
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
    /// The time from which the deployment may be deleted, at least 30 days after it was last served; absent for the live one and for
    /// those that the plan's number keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The reason why the deployment failed; absent unless it did.
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
    /// Lines of `_headers` and `_redirects` and files of the archive that were left out, files that it held more than once with
    /// different contents, a missing `index.html`, files that look private, and the reasons; absent when there are none.
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

/// `?limit=` and `?cursor=` of the files of a deployment.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct FilePage {
    /// The number of files wanted: 1 to 1,000, 1,000 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 1_000))]
    pub limit: Option<String>,
    /// The `next_cursor` of the page before; absent for the first page.
    pub cursor: Option<String>,
}

/// `?format=` of the archive of a deployment.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct ArchiveQuery {
    /// The form: `tar.gz`, also when absent, or `zip`.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub format: Option<ArchiveFormat>,
}

/// A form in which a deployment is downloaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ArchiveFormat {
    /// A tarball, compressed by gzip.
    #[default]
    #[serde(rename = "tar.gz")]
    TarGz,
    /// A zip archive.
    #[serde(rename = "zip")]
    Zip,
}

impl ArchiveFormat {
    /// What the names of such files end in, without a dot before it; also its name in `?format=`.
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

/// A page of the files of a deployment, sorted by the bytes of their paths.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeployedFileList {
    /// The files of this page.
    pub files: Vec<DeployedFile>,
    /// The `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// `?against=` of a deployment's changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct Against {
    /// The deployment to compare with; when absent, the one that was made before.
    pub against: Option<DeploymentId>,
}

/// A file that a deployment has and the other has not.
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

/// A file that the other deployment has and this one has not.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemovedFile {
    /// The path, without a leading slash.
    pub path: String,
    /// The size of the file in the other deployment, in bytes.
    pub size_before: u64,
}

/// The difference between the files of a deployment and those of another. Each list is sorted by path, and names 1,000 files at most.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentChanges {
    /// The other deployment; null when there is none, and every file counts as added.
    pub against: Option<DeploymentId>,
    /// The files that are new.
    pub added: Vec<AddedFile>,
    /// The files whose content is another one.
    pub changed: Vec<ChangedFile>,
    /// The files that are no longer there.
    pub removed: Vec<RemovedFile>,
    /// The number of all files that are new.
    pub added_files: u32,
    /// The number of all files whose content is another one.
    pub changed_files: u32,
    /// The number of all files that are no longer there.
    pub removed_files: u32,
    /// Whether a list names fewer files than there are.
    pub truncated: bool,
}
