//! `/projects/:name/stats/export`.

use domain::stats::{CalendarDay, DaysBack};
use serde::{Deserialize, Serialize};

/// The period to export, and the format.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct ExportQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<DaysBack>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<CalendarDay>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<CalendarDay>,
    /// The format: `csv` (the default) or `ndjson`, one object per line.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub format: Option<ExportFormat>,
}

/// An export format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExportFormat {
    /// Comma-separated values (RFC 4180), with a header line.
    #[default]
    Csv,
    /// One JSON object per line.
    Ndjson,
}

/// A row of the export: a number and what it counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExportRow {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The kind of number: `total`, `status` and `cache` (responses), `people` (page views), `visitors`, or a list of
    /// responses or views by key: `hostname`, `path`, `country`, `page`, `referrer`, `view_country`, `view`, `error`,
    /// `agent`, `agent_page`, `agent_disallowed`.
    pub kind: String,
    /// The key within the list, its parts separated by tabs. `(other)` sums all entries beyond the list's limit.
    pub key: String,
    /// The number.
    pub count: u64,
    /// Response body bytes sent, where they are counted; otherwise 0.
    pub bytes: u64,
}
