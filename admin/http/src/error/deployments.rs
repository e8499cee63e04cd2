//! Errors of deployments as responses.

use db::projects::deployments::ActivateError;
use db::projects::deployments::DeleteDeploymentError;
use db::projects::deployments::UploadError;
use domain::deployment::DeploymentStatus;

use super::{ApiError, Code};

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Gone => {
                Self::new(Code::NotFound, "The project or this deployment was deleted while it was being uploaded.")
            }
            UploadError::Suspended(suspended) => suspended.into(),
            UploadError::Quota(reached) => reached.into(),
            UploadError::Db(error) => error.into(),
        }
    }
}

impl From<ActivateError> for ApiError {
    fn from(error: ActivateError) -> Self {
        match error {
            ActivateError::NotFound => Self::new(
                Code::NotFound,
                "The project has no such deployment: it was deleted, or has expired. The list of deployments says which can be served.",
            ),
            ActivateError::NotActivatable(DeploymentStatus::Uploading) => Self::new(
                Code::NotActivatable,
                "This deployment is still being uploaded; it goes live by itself when it is complete.",
            ),
            ActivateError::NotActivatable(_) => Self::new(
                Code::NotActivatable,
                "The upload of this deployment failed, so there is nothing to serve; deploy again.",
            ),
            ActivateError::Suspended(suspended) => suspended.into(),
            ActivateError::Db(error) => error.into(),
        }
    }
}

impl From<DeleteDeploymentError> for ApiError {
    fn from(error: DeleteDeploymentError) -> Self {
        match error {
            DeleteDeploymentError::NotFound => Self::not_found("deployment"),
            DeleteDeploymentError::Live => Self::new(
                Code::DeploymentLive,
                "This deployment is live; activate another one first, or delete the project.",
            ),
            DeleteDeploymentError::Suspended(suspended) => suspended.into(),
            DeleteDeploymentError::Db(error) => error.into(),
        }
    }
}
