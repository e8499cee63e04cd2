//! `/projects/:name/stats/public` and `/stats/:token`.

use domain::{ProjectName, Timestamp, stats::CalendarDay};
use serde::{Deserialize, Serialize};

use super::{CountryViews, LiveBots, PageViews, ReferrerViews};

/// Whether a project has a public link to its statistics.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicLink {
    /// Whether the link works.
    pub enabled: bool,
    /// The link, which shows statistics to anyone who has it; null if there is none.
    pub url: Option<String>,
}

/// The request to turn a project's public link on or off.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetPublicLink {
    /// Whether the link should work. A link that was turned off stays off; turning it on creates a different one.
    pub enabled: bool,
}

/// The days to report; the last 30 UTC days, including today, by default.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct PublicQuery {
    /// The first UTC day, as `YYYY-MM-DD`; one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<CalendarDay>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<CalendarDay>,
}

/// A project's statistics as its public link shows them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicStats {
    /// The project's name.
    pub project: ProjectName,
    /// The start of the first day.
    pub from: Timestamp,
    /// The end of the last day; the time of the response if that day is today.
    pub to: Timestamp,
    /// The number of days.
    pub days: u16,
    /// The number of requests.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
    /// The number of pages viewed by people.
    pub pageviews: u64,
    /// The totals of the preceding period of equal length; null if no longer stored. Unlike today, its days are whole.
    pub previous: Option<PublicTotals>,
    /// One entry per day, including today and days without traffic.
    pub timeline: Vec<PublicDay>,
    /// The ten most viewed pages.
    pub top_pages: Vec<PageViews>,
    /// The ten hosts that led the most people here.
    pub top_referrers: Vec<ReferrerViews>,
    /// The eight countries with the most views, as two letters (ISO 3166-1); `XX` if unknown.
    pub top_countries: Vec<CountryViews>,
    /// Requests by kind of client.
    pub bots: LiveBots,
}

/// Traffic totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicTotals {
    /// The number of requests.
    pub requests: u64,
    /// Response body bytes sent.
    pub bytes: u64,
    /// The number of pages viewed by people.
    pub pageviews: u64,
}

/// Traffic of a UTC day.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicDay {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The number of requests.
    pub requests: u64,
    /// The number of pages viewed by people.
    pub pageviews: u64,
    /// The number of people, estimated to about one percent.
    pub visitors: u64,
}
