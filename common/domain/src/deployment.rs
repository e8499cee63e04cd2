//! States of a deployment.

use serde::{Deserialize, Serialize};

/// The state of a deployment. See "States and transitions" in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "text", rename_all = "lowercase"))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DeploymentStatus {
    /// The upload is being received and checked.
    Uploading,
    /// The project's active deployment.
    Live,
    /// The deployment was live and can be activated again.
    Superseded,
    /// The upload did not become a deployment. Final.
    Failed,
}

impl DeploymentStatus {
    /// Returns whether a project may be switched to a deployment in this state.
    pub fn is_activatable(self) -> bool {
        self.has_files()
    }

    /// Returns whether the files of a deployment in this state are kept.
    pub fn has_files(self) -> bool {
        matches!(self, Self::Live | Self::Superseded)
    }
}
