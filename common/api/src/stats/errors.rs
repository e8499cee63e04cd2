//! `/projects/:name/stats/errors`.

use domain::{DeploymentId, ProjectName, Timestamp};
use serde::{Deserialize, Serialize};

use super::DeploymentMark;

/// Errors returned to a project's visitors, by UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorsStats {
    /// The project's name.
    pub project: ProjectName,
    /// The start of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the response if that day is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// The totals of all days.
    pub totals: ErrorCounts,
    /// The totals of the preceding period of equal length; null if no longer stored. Unlike today, its days are whole.
    pub previous: Option<ErrorCounts>,
    /// One entry per day, including today and days without errors.
    pub timeline: Vec<ErrorsDay>,
    /// The fifty most frequent errors.
    pub errors: Vec<ErrorStats>,
    /// The deployments that went live on these days, in chronological order.
    pub deployments: Vec<DeploymentMark>,
}

/// Error counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorCounts {
    /// The number of responses with status 404.
    pub not_found: u64,
    /// The number of responses with a status from 500 to 599.
    pub server_errors: u64,
    /// The number of errors beyond those counted by path.
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
    /// The requested path without its query, truncated if long.
    pub path: String,
    /// The number of responses.
    pub requests: u64,
    /// The five pages that led there most often.
    pub referrers: Vec<ErrorReferrer>,
    /// The deployment in which the path went missing, if the one before it had the path; otherwise null.
    pub broken_by_deployment: Option<DeploymentId>,
}

/// A page that led to an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorReferrer {
    /// The path of a page of the same site (starting with `/`), or the host of another site; empty if unknown.
    pub referrer: String,
    /// The number of responses.
    pub requests: u64,
}
