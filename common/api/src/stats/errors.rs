//! `/projects/:name/stats/errors`.

use domain::{DeploymentId, ProjectName, Timestamp};
use serde::{Deserialize, Serialize};

use super::DeploymentMark;

/// Errors that a project's visitors met, by UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorsStats {
    /// The project's name.
    pub project: ProjectName,
    /// The beginning of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the answer when that is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// The sums of all days.
    pub totals: ErrorCounts,
    /// The sums of as many days before the first; null where those are not kept any more. Today counts as far as it has come, and the
    /// days before as a whole.
    pub previous: Option<ErrorCounts>,
    /// Every day, today and those without errors included.
    pub timeline: Vec<ErrorsDay>,
    /// The fifty most frequent errors.
    pub errors: Vec<ErrorStats>,
    /// The deployments that went live within these days, in order.
    pub deployments: Vec<DeploymentMark>,
}

/// Numbers of errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorCounts {
    /// Answers with the status 404.
    pub not_found: u64,
    /// Answers with a status from 500 to 599.
    pub server_errors: u64,
    /// Errors beyond those that are counted by path.
    pub other: u64,
}

/// Errors of a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorsDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The day's errors.
    #[serde(flatten)]
    pub counts: ErrorCounts,
}

/// An error at a path.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorStats {
    /// The status: 404, or 500 to 599.
    pub status: u16,
    /// The path as it was requested, without the query; a long one is cut.
    pub path: String,
    /// The number of answers.
    pub requests: u64,
    /// The pages that led there, the most frequent five.
    pub referrers: Vec<ErrorReferrer>,
    /// The deployment since which the path is missing, while the one before it had the path; else null.
    pub broken_by_deployment: Option<DeploymentId>,
}

/// A page that led to an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorReferrer {
    /// The path of a page of the site itself (it begins with `/`), or another site's host; empty without either.
    pub referrer: String,
    /// The number of answers.
    pub requests: u64,
}
