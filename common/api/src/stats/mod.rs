//! `/projects/:name/stats` and what is below it: live statistics and the history here, the other reports in files of
//! their own.

mod audience;
mod bots;
mod errors;
mod export;
mod public;

use domain::{
    DeploymentId, ProjectName, Timestamp,
    stats::{Day, Days, Hours},
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

/// The hours that are asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct LiveQuery {
    /// The number of hours, the present one included; 24 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 72))]
    pub hours: Option<Hours>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `hours`: today or one of the seven days before.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<Day>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent. Three days at most are told by the hour.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<Day>,
    /// The hostname whose traffic is asked for; every hostname when absent.
    pub hostname: Option<String>,
    /// The path whose traffic is asked for, as `top_paths` has it; every path when absent.
    pub page: Option<String>,
    /// The country whose traffic is asked for, as two letters; every country when absent. Requests are counted by hostname, by
    /// path and by country, so only one of the three can be asked for.
    pub country: Option<String>,
}

/// The days that are asked for, and the traffic within them.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct HistoryQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<Days>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<Day>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<Day>,
    /// The hostname whose traffic is asked for; every hostname when absent.
    pub hostname: Option<String>,
    /// The path whose traffic is asked for, as `top_paths` has it; every path when absent.
    pub page: Option<String>,
    /// The country whose traffic is asked for, as two letters; every country when absent. Requests are counted by hostname, by
    /// path and by country, so only one of the three can be asked for.
    pub country: Option<String>,
}

/// The days that are asked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct DaysQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<Days>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<Day>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<Day>,
}

/// A project's traffic within hours, until some seconds ago at most. Of one hostname, path or country only requests and
/// bytes are known: all else is null.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveStats {
    /// The project's name.
    pub project: ProjectName,
    /// The beginning of the first hour.
    pub from: Timestamp,
    /// The end of the last hour; the time of the answer when that is the present one.
    pub to: Timestamp,
    /// The sums of all hours.
    pub totals: StatsTotals,
    /// The sums of as many hours before the first; null where those are not kept any more. The present hour counts as far as it
    /// has come, and the hours before as a whole.
    pub previous: Option<StatsTotals>,
    /// Answers by class of status.
    pub status: Option<StatusCounts>,
    /// Answers with a body of the site, by whether it was in the edge's memory.
    pub cache: Option<CacheCounts>,
    /// Every hostname that was visited, the most visited first. The address of a deployment counts as the project's
    /// own. Empty for one path or country.
    pub hostnames: Vec<HostnameStats>,
    /// Every hour, those without traffic included.
    pub timeline: Vec<HourStats>,
    /// The ten most requested paths that the site has.
    pub top_paths: Option<Vec<PathStats>>,
    /// The eight most frequent countries, as two letters (ISO 3166-1); `XX` where it is not known.
    pub top_countries: Option<Vec<CountryStats>>,
    /// Whether a list had more than 50,000 distinct entries, so that some were counted together. Totals are exact all
    /// the same.
    pub truncated: bool,
    /// Requests by kind of client. A client that may be a person is counted here once that is settled, some seconds
    /// after its requests.
    pub bots: Option<LiveBots>,
    /// The deployments that went live within these hours, in order.
    pub deployments: Vec<DeploymentMark>,
}

/// A project's traffic by UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsHistory {
    /// The project's name.
    pub project: ProjectName,
    /// The beginning of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the answer when that is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// The sums of all days.
    pub totals: StatsTotals,
    /// The sums of as many days before the first; null where those are not kept any more. Today counts as far as it has come, and the
    /// days before as a whole.
    pub previous: Option<StatsTotals>,
    /// Every day, today and those without traffic included.
    pub timeline: Vec<DayStats>,
    /// The deployments that went live within these days, in order.
    pub deployments: Vec<DeploymentMark>,
}

/// A moment at which a deployment went live: it was published, or the project was pointed at it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeploymentMark {
    /// The deployment's id.
    pub id: DeploymentId,
    /// The time at which the deployment went live.
    pub at: Timestamp,
    /// The commit that the deployment was built from; null when it is not known, or the deployment was deleted.
    pub git_sha: Option<String>,
}

/// The number of requests, and the bytes that were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequestCount {
    /// The number of requests.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
}

/// Sums over answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsTotals {
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
    /// Answers whose body was in the edge's memory; null for one hostname, path or country.
    pub cache_hits: Option<u64>,
}

/// Answers by class of status.
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

/// Answers with a body of the site, by where it was. Others (redirects, 304s, answers to HEAD, pages of the platform)
/// are neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CacheCounts {
    /// In the edge's memory.
    #[serde(rename = "HIT")]
    pub hit: u64,
    /// In the store.
    #[serde(rename = "MISS")]
    pub miss: u64,
}

/// Traffic of a hostname.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostnameStats {
    /// The hostname.
    pub hostname: String,
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
}

/// Traffic of an hour.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HourStats {
    /// The beginning of the hour.
    pub hour: Timestamp,
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
    /// Answers whose body was in the edge's memory; null for one hostname, path or country.
    pub cache_hits: Option<u64>,
}

/// Traffic of a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DayStats {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
    /// Answers whose body was in the edge's memory; null for one hostname, path or country.
    pub cache_hits: Option<u64>,
}

/// Traffic of a path.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PathStats {
    /// The path as it was requested, without the query; a long one is cut.
    pub path: String,
    /// The number of answers.
    pub requests: u64,
    /// Bytes of bodies that were sent.
    pub bytes: u64,
}

/// Traffic of a country.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CountryStats {
    /// The country as two letters, or `XX`.
    pub country: String,
    /// The number of answers.
    pub requests: u64,
}
