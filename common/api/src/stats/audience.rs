//! `/projects/:name/stats/audience`.

use domain::{
    ProjectName, Timestamp,
    stats::{CalendarDay, DaysBack},
};
use serde::{Deserialize, Serialize};

use super::DeploymentMark;

/// The period to report, and filters on its views.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct AudienceQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<DaysBack>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<CalendarDay>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<CalendarDay>,
    /// The hostname to count views of; all hostnames when absent.
    pub hostname: Option<String>,
    /// The path to count views of; all paths when absent.
    pub page: Option<String>,
    /// The referring host to count views from, empty for views without a referring site; all views when absent.
    pub referrer: Option<String>,
    /// The country to count views from, as two letters; all countries when absent.
    pub country: Option<String>,
}

/// A project's views by people, by UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceStats {
    /// The project's name.
    pub project: ProjectName,
    /// The start of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the response if that day is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// The sums of all days.
    pub totals: AudienceTotals,
    /// The totals of the preceding period of equal length; null if no longer stored. Unlike today, its days are whole.
    pub previous: Option<AudienceTotals>,
    /// One entry per day, including today and days without views.
    pub timeline: Vec<AudienceDay>,
    /// One entry per hour that has started; null for more than three days, and for days more than a week ago, whose
    /// hours are no longer stored.
    pub hours: Option<Vec<AudienceHour>>,
    /// Whether some views are beyond a list's limit: they are missing from the lists and, with a filter, from the
    /// numbers.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub truncated: bool,
    /// The ten most viewed pages.
    pub top_pages: Vec<PageViews>,
    /// The ten hosts that led the most people here, excluding the site's own hosts.
    pub top_referrers: Vec<ReferrerViews>,
    /// The eight countries with the most views, as two letters (ISO 3166-1); `XX` if unknown.
    pub top_countries: Vec<CountryViews>,
    /// The deployments that went live on these days, in chronological order.
    pub deployments: Vec<DeploymentMark>,
}

/// Totals of views. There is no total of visitors: a person who comes on two days cannot be told from two people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceTotals {
    /// The number of pages viewed by people.
    pub pageviews: u64,
}

/// Views of a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The number of pages viewed by people.
    pub pageviews: u64,
    /// The number of people, estimated to about one percent; null with a filter: visitors are known only per site.
    pub visitors: Option<u64>,
}

/// Views of an hour.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceHour {
    /// The start of the hour.
    pub hour: Timestamp,
    /// The number of pages viewed by people.
    pub pageviews: u64,
}

/// Views of a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PageViews {
    /// The path without its query, truncated if long.
    pub path: String,
    /// The number of views.
    pub views: u64,
}

/// Views referred by another site.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReferrerViews {
    /// The other site's host.
    pub referrer: String,
    /// The number of views.
    pub views: u64,
}

/// Views from a country.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CountryViews {
    /// The country as two letters, or `XX`.
    pub country: String,
    /// The number of views.
    pub views: u64,
}
