//! `svc stats export`.

use std::path::PathBuf;

use clap::ValueEnum;
use domain::{ProjectName, limits, stats::CalendarDay};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::projects;
use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    output::Output,
};

const EXPORT_BYTES: u64 = 256 * limits::MB;

/// Export daily counts: a row for each day, kind and key.
#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// The file to write to [default: stdout]
    file: Option<PathBuf>,
    /// The number of last days, including today, in UTC [default: 30]
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = clap::value_parser!(u16).range(1..=365))]
    days: Option<u16>,
    /// The first day, in UTC: within the last 400 days
    #[arg(long, value_name = "YYYY-MM-DD")]
    from: Option<CalendarDay>,
    /// The last day [default: today]
    #[arg(long, value_name = "YYYY-MM-DD", requires = "from")]
    to: Option<CalendarDay>,
    /// The format of the rows
    #[arg(long, value_enum, default_value_t = ExportFormatArg::Csv)]
    format: ExportFormatArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormatArg {
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object per line
    Ndjson,
}

pub(super) async fn run(wanted: ExportArgs, name: &ProjectName, client: &Client, output: Output) -> anyhow::Result<()> {
    let ExportArgs { file, days, from, to, format } = wanted;
    // With `--json`, stdout holds one document, whatever format a file would have.
    let format = if output.is_json() && file.is_none() { ExportFormatArg::Ndjson } else { format };
    let form = if format == ExportFormatArg::Csv { "csv" } else { "ndjson" };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("format", form);
    if let Some(days) = days {
        query.append_pair("days", &days.to_string());
    }
    for (name, day) in [("from", from), ("to", to)] {
        if let Some(day) = day {
            query.append_pair(name, &day.to_string());
        }
    }
    let path = format!("/projects/{name}/stats/export?{}", query.finish());
    let rows = client.get_text(&path, EXPORT_BYTES).await.map_err(|failure| projects::unknown(name, failure))?;
    if let Some(file) = file {
        let written = std::fs::write(&file, &rows);
        written.map_err(|error| Failure::usage(format!("Cannot write {}: {error}.", file.display())))?;
        output.success(&format!("Saved {}.", file.display()));
        return output.result(&json!({ "file": file, "bytes": rows.len() }), String::new);
    }
    if !output.is_json() {
        return output.exact(&Value::Null, || rows);
    }
    let read: Result<Vec<Value>, _> = rows.lines().filter(|row| !row.is_empty()).map(serde_json::from_str).collect();
    let rows =
        read.map_err(|_| Failure::new(FailureClass::Unreachable, "unexpected_answer", "The export cannot be read."))?;
    output.result(&json!({ "rows": rows }), String::new)
}
