//! `/projects/:name/stats/export`: everything that is stored of days, as rows.

use std::fmt::Write as _;

use admin_http::{csv::cell, error::ApiError, extract::Query};
use api::stats::{ExportFormat, ExportQuery, ExportRow};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
    bounds::ConcurrencyLimits,
};
use axum::{body::Body, extract::State, http::header, response::IntoResponse};
use bytes::Bytes;
use db::{
    permits::Member,
    stats::report::{self, DayQuery, DayRange, DayTraffic, EntryResolution, ListKind, StatsPermit},
};
use domain::PayingAccount;
use futures_util::stream;
use sqlx::PgPool;
use time::Date;

use super::{ReportRequest, read_error};

const HEADINGS: &str = "day,kind,key,count,bytes\r\n";

/// Exports a project's traffic by UTC day: a row for each day, kind and key.
///
/// Days without traffic have no rows. Rows are sent day by day as they are read. In `csv`, an apostrophe precedes
/// anything that a spreadsheet could interpret as a formula, at the start of a cell and after `;`, a tab, a line break
/// or a quote.
#[utoipa::path(
    get, path = "/projects/{name}/stats/export", operation_id = "export_stats", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), ExportQuery),
    responses((status = 200, description = "The rows", headers(("Content-Disposition")), content(
        (String = "text/csv"), (ExportRow = "application/x-ndjson"),
    ))),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or you, may have at a time",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<ExportQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let ReportRequest { readable, range, turn, .. } =
        ReportRequest::for_project(&app, &caller, &project, query.days, query.from, query.to).await?;
    let format = query.format.unwrap_or_default();
    let (reader, bounds) = (caller.paying_account(), app.bounds.clone());
    let mut export =
        TrafficExport { db: app.db.clone(), bounds, reader, project: readable, format, days: range.days().collect() };
    export.days.reverse();
    // Before the response starts, so that a read error can still be reported.
    let mut first = export.next_day().await.map_err(read_error)?.unwrap_or_default();
    // A slow client holds no permit meanwhile: each further day acquires its own.
    drop(turn);
    if format == ExportFormat::Csv {
        first.insert_str(0, HEADINGS);
    }
    let rows = stream::try_unfold((Some(first), export), |(first, mut export)| async move {
        let rows = match first {
            Some(first) => Some(first),
            None => export
                .next_day_with_permit()
                .await
                .inspect_err(|error| tracing::error!("an export broke off: {error:#}"))?,
        };
        Ok::<_, anyhow::Error>(rows.map(|rows| (Bytes::from(rows), (None, export))))
    });
    let (kind, extension) = match format {
        ExportFormat::Csv => ("text/csv; charset=utf-8", "csv"),
        ExportFormat::Ndjson => ("application/x-ndjson", "ndjson"),
    };
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{}-stats.{extension}\"", project.name)),
    ];
    Ok((headers, Body::from_stream(rows)))
}

struct TrafficExport {
    db: PgPool,
    bounds: ConcurrencyLimits,
    reader: PayingAccount,
    project: StatsPermit,
    format: ExportFormat,
    /// In reverse order.
    days: Vec<Date>,
}

impl TrafficExport {
    /// Returns the rows of the next day, after waiting for a permit.
    async fn next_day_with_permit(&mut self) -> anyhow::Result<Option<String>> {
        if self.days.is_empty() {
            return Ok(None);
        }
        let _turn = self.bounds.reports().acquire_next_part(&self.reader).await?;
        Ok(self.next_day().await?)
    }

    /// Returns the rows of the next day, or `None` after the last.
    async fn next_day(&mut self) -> Result<Option<String>, sqlx::Error> {
        let Some(day) = self.days.pop() else { return Ok(None) };
        let (name, mut text) = (day.to_string(), String::new());
        let mut entries = String::new();
        let wanted = DayQuery { lists: &ListKind::ALL, grain: EntryResolution::Day, visitors: true };
        let found = report::days(&self.db, &self.project, DayRange::single(day), wanted, |entry| {
            let row = ExportRowLabels { day: &name, kind: entry.kind.as_str(), key: entry.key };
            row.write(self.format, entry.count.requests, entry.count.bytes, &mut entries);
        });
        for traffic in found.await? {
            write_sums(&traffic, &name, self.format, &mut text);
        }
        text.push_str(&entries);
        Ok(Some(text))
    }
}

fn write_sums(traffic: &DayTraffic, day: &str, format: ExportFormat, into: &mut String) {
    let sums = &traffic.sums;
    let [success, redirection, client_error, server_error, other] = sums.statuses;
    for (kind, key, count, bytes) in [
        ("total", "", sums.requests, sums.bytes),
        ("status", "2xx", success, 0),
        ("status", "3xx", redirection, 0),
        ("status", "4xx", client_error, 0),
        ("status", "5xx", server_error, 0),
        ("status", "other", other, 0),
        ("cache", "HIT", sums.cache_hits, 0),
        ("cache", "MISS", sums.cache_misses, 0),
        ("people", "", sums.pageviews, sums.people_bytes),
        ("visitors", "", traffic.visitors, 0),
    ] {
        ExportRowLabels { day, kind, key }.write(format, count, bytes, into);
    }
}

struct ExportRowLabels<'r> {
    day: &'r str,
    kind: &'r str,
    key: &'r str,
}

impl ExportRowLabels<'_> {
    fn write(&self, format: ExportFormat, count: u64, bytes: u64, into: &mut String) {
        let Self { day, kind, key } = *self;
        match format {
            ExportFormat::Csv => {
                // Writing to a string cannot fail.
                let _ = write!(into, "{day},{kind},{},{count},{bytes}\r\n", cell(key));
            }
            ExportFormat::Ndjson => {
                let row = ExportRow { day: day.to_owned(), kind: kind.to_owned(), key: key.to_owned(), count, bytes };
                into.push_str(&serde_json::to_string(&row).unwrap_or_default());
                into.push('\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines() {
        let row = ExportRowLabels { day: "2026-11-22", kind: "path", key: "/a\"\n" };
        let (mut csv, mut ndjson) = (String::new(), String::new());
        row.write(ExportFormat::Csv, 3, 40, &mut csv);
        row.write(ExportFormat::Ndjson, 3, 40, &mut ndjson);
        assert_eq!(csv, "2026-11-22,path,\"/a\"\"\n\",3,40\r\n");
        assert_eq!(ndjson.matches('\n').count(), 1);
        let read: ExportRow = serde_json::from_str(&ndjson).unwrap();
        assert_eq!((&*read.key, read.count, read.bytes), ("/a\"\n", 3, 40));
    }
}
