//! `/projects/:name/stats/export`.

use domain::stats::{Day, Days};
use serde::{Deserialize, Serialize};

/// The days that are asked for, and the form in which they are wanted.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub struct ExportQuery {
    /// The number of UTC days, today included; 30 when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<u16>, minimum = 1, maximum = 365))]
    pub days: Option<Days>,
    /// The first UTC day, as `YYYY-MM-DD`, instead of `days`: one of the last 400.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub from: Option<Day>,
    /// The last UTC day, as `YYYY-MM-DD`; today when absent.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = Date))]
    pub to: Option<Day>,
    /// The form: `csv`, also when absent, or `ndjson`, an object on each line.
    #[cfg_attr(feature = "openapi", param(inline))]
    pub format: Option<ExportFormat>,
}

/// A form in which statistics are exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExportFormat {
    /// Comma-separated values (RFC 4180), under a line of headings.
    #[default]
    Csv,
    /// A JSON object on each line.
    Ndjson,
}

/// A row of the export: a number, and what it is the number of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExportRow {
    /// The day, as `YYYY-MM-DD`.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-11-22"))]
    pub day: String,
    /// The kind of number: `total`, `status` and `cache` (answers), `people` (page views), `visitors`, or a list of
    /// answers or views by key: `hostname`, `path`, `country`, `page`, `referrer`, `view_country`, `view`, `error`,
    /// `agent`, `agent_page`, `agent_disallowed`.
    pub kind: String,
    /// The key within the list, with a tab between its parts. The key `(other)` sums up all entries beyond the list's
    /// bound.
    pub key: String,
    /// The number.
    pub count: u64,
    /// Bytes of bodies that were sent, where they are counted; else 0.
    pub bytes: u64,
}
