//! `/projects/:name/stats/audience`.

use domain::{
    ProjectName, Timestamp,
    stats::{Day, Days},
};
use serde::{Deserialize, Serialize};

use super::DeploymentMark;

/// The days that are asked for, and the views among them.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct AudienceQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<Days>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<Day>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<Day>,
    /// The hostname of the views that count; every hostname when absent.
    pub hostname: Option<String>,
    /// The path of the views that count; every path when absent.
    pub page: Option<String>,
    /// The host that led to the views that count, or nothing for those that no other site led to; every view when
    /// absent.
    pub referrer: Option<String>,
    /// The country of the views that count, as two letters; every country when absent.
    pub country: Option<String>,
}

/// A project's views by people, by UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceStats {
    /// The project's name.
    pub project: ProjectName,
    /// The beginning of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the answer when that is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// The sums of all days.
    pub totals: AudienceTotals,
    /// The sums of as many days before the first; null where those are not kept any more. Today counts as far as it has come, and the
    /// days before as a whole.
    pub previous: Option<AudienceTotals>,
    /// Every day, today and those without views included.
    pub timeline: Vec<AudienceDay>,
    /// Every hour of these days that has begun; null for more than three days, and for days before the last week, whose hours
    /// are not kept any more.
    pub hours: Option<Vec<AudienceHour>>,
    /// Whether some views are only known in sum, since they were beyond the bound of a list: they lack in the lists and, where
    /// only some views are asked for, in the numbers.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub truncated: bool,
    /// The ten most viewed pages.
    pub top_pages: Vec<PageViews>,
    /// The ten hosts that led most people here. The site's own hosts are left out.
    pub top_referrers: Vec<ReferrerViews>,
    /// The eight countries with most views, as two letters (ISO 3166-1); `XX` where it is not known.
    pub top_countries: Vec<CountryViews>,
    /// The deployments that went live within these days, in order.
    pub deployments: Vec<DeploymentMark>,
}

/// Sums over views. Visitors have none: who comes on two days cannot be told from two people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceTotals {
    /// The number of pages that people viewed.
    pub pageviews: u64,
}

/// Views of a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The number of pages that people viewed.
    pub pageviews: u64,
    /// The number of people, estimated to about one percent; null for some of the views, because visitors are only
    /// known for the whole site.
    pub visitors: Option<u64>,
}

/// Views of an hour.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AudienceHour {
    /// The beginning of the hour.
    pub hour: Timestamp,
    /// The number of pages that people viewed.
    pub pageviews: u64,
}

/// Views of a page.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PageViews {
    /// The path, without the query; a long one is cut.
    pub path: String,
    /// The number of views.
    pub views: u64,
}

/// Views that another site led to.
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
