//! `/projects/:name/stats` and the routes below it. Live statistics and the history are here, other reports in own
//! files.

mod audience;
mod bots;
mod errors;
mod export;
mod public;

use domain::{
    DeploymentId, ProjectName, Timestamp,
    stats::{CalendarDay, DaysBack, HoursBack},
};
use serde::{Deserialize, Serialize};

pub use self::{
    audience::{
        AudienceDay, AudienceHour, AudienceQuery, AudienceStats, AudienceTotals, CountryViews, PageViews, ReferrerViews,
    },
    bots::{AgentStats, BotsDay, BotsStats, BotsTotals, ClassStats, LiveBots, OperatorStats},
    errors::{ErrorCounts, ErrorReferrer, ErrorStats, ErrorsDay, ErrorsStats},
    export::{ExportFormat, ExportQuery, ExportRow},
    public::{PublicDay, PublicLink, PublicQuery, PublicStats, PublicTotals, SetPublicLink},
};

/// The hours to report, and filters on their traffic.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct LiveQuery {
    /// The number of hours, including the current one; 24 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 72))]
    pub hours: Option<HoursBack>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `hours`: today or one of the seven days before.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<CalendarDay>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent. Hourly statistics cover at most three days.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<CalendarDay>,
    /// The hostname to count; all hostnames when absent.
    pub hostname: Option<String>,
    /// The path to count, as listed in `top_paths`; all paths when absent.
    pub page: Option<String>,
    /// The country to count, as two letters; all countries when absent. Requests are counted separately by hostname, by
    /// path and by country, so only one of the three can be given.
    pub country: Option<String>,
}

/// The days to report, and filters on their traffic.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct HistoryQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<DaysBack>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<CalendarDay>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<CalendarDay>,
    /// The hostname to count; all hostnames when absent.
    pub hostname: Option<String>,
    /// The path to count, as listed in `top_paths`; all paths when absent.
    pub page: Option<String>,
    /// The country to count, as two letters; all countries when absent. Requests are counted separately by hostname, by
    /// path and by country, so only one of the three can be given.
    pub country: Option<String>,
}

/// The days to report.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct DaysQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<DaysBack>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<CalendarDay>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<CalendarDay>,
}

/// A project's traffic by the hour, at most some seconds old. For a single hostname, path or country, only requests and
/// bytes are known; all else is null.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveStats {
    /// The project's name.
    pub project: ProjectName,
    /// The start of the first hour.
    pub from: Timestamp,
    /// The end of the last hour; the time of the response if that is the current hour.
    pub to: Timestamp,
    /// The totals of all hours.
    pub totals: StatsTotals,
    /// The totals of the preceding period of the same length; null if it is no longer stored. The current hour counts
    /// only up to now, the preceding hours in full.
    pub previous: Option<StatsTotals>,
    /// Responses by status class.
    pub status: Option<StatusCounts>,
    /// Responses with a body of the site, by whether the body was in the edge's memory.
    pub cache: Option<CacheCounts>,
    /// All visited hostnames, most visited first. A deployment's own address counts as the project's. Empty for a
    /// single path or country.
    pub hostnames: Vec<HostnameStats>,
    /// One entry per hour, including hours without traffic.
    pub timeline: Vec<HourStats>,
    /// The ten most requested paths that exist on the site.
    pub top_paths: Option<Vec<PathStats>>,
    /// The eight most frequent countries, as two letters (ISO 3166-1); `XX` if unknown.
    pub top_countries: Option<Vec<CountryStats>>,
    /// Whether a list had more than 50,000 distinct entries, so that the rest is one entry. The totals stay exact.
    pub truncated: bool,
    /// Requests by kind of client. A client that may be a person is counted some seconds later, once that is decided.
    pub bots: Option<LiveBots>,
    /// The deployments that went live within these hours, in chronological order.
    pub deployments: Vec<DeploymentMark>,
}

/// A project's traffic by UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsHistory {
    /// The project's name.
    pub project: ProjectName,
    /// The start of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the response if that day is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// The totals of all days.
    pub totals: StatsTotals,
    /// The totals of the preceding period of equal length; null if no longer stored. Unlike today, its days are whole.
    pub previous: Option<StatsTotals>,
    /// One entry per day, including today and days without traffic.
    pub timeline: Vec<DayStats>,
    /// The deployments that went live on these days, in chronological order.
    pub deployments: Vec<DeploymentMark>,
}

/// A moment at which a deployment went live, because it was published or activated again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentMark {
    /// The deployment's id.
    pub id: DeploymentId,
    /// The time at which the deployment went live.
    pub at: Timestamp,
    /// The commit that the deployment was built from; null if unknown or the deployment was deleted.
    pub git_sha: Option<String>,
}

/// The number of requests, and the bytes sent in response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequestCount {
    /// The number of requests.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
}

/// Totals of responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsTotals {
    /// The number of responses.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
    /// Responses whose body came from the edge's memory; null for a single hostname, path or country.
    pub cache_hits: Option<u64>,
}

/// Responses by status class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatusCounts {
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    pub server_error: u64,
    /// Any other.
    pub other: u64,
}

/// Responses with a body of the site, by its source. Redirects, 304s, HEAD and platform pages are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CacheCounts {
    /// Served from the edge's memory.
    #[serde(rename = "HIT")]
    pub hit: u64,
    /// Fetched from the store.
    #[serde(rename = "MISS")]
    pub miss: u64,
}

/// Traffic of a hostname.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostnameStats {
    /// The hostname.
    pub hostname: String,
    /// The number of responses.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
}

/// Traffic of an hour.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HourStats {
    /// The start of the hour.
    pub hour: Timestamp,
    /// The number of responses.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
    /// Responses whose body came from the edge's memory; null for a single hostname, path or country.
    pub cache_hits: Option<u64>,
}

/// Traffic of a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DayStats {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The number of responses.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
    /// Responses whose body came from the edge's memory; null for a single hostname, path or country.
    pub cache_hits: Option<u64>,
}

/// Traffic of a path.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PathStats {
    /// The requested path without its query, truncated if long.
    pub path: String,
    /// The number of responses.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
}

/// Traffic of a country.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CountryStats {
    /// The country as two letters, or `XX`.
    pub country: String,
    /// The number of responses.
    pub requests: u64,
}
