//! `svc stats export`.

use std::path::PathBuf;

use clap::ValueEnum;
use domain::{ProjectName, limits};
use serde_json::{Value, json};

use super::projects;
use crate::{
    client::Client,
    failure::{Failure, Kind},
    output::Output,
};

/// Most bytes of an export that are read.
const EXPORT_BYTES: u64 = 256 * limits::MB;

/// Export what was counted by day: a row for each day, kind and key.
#[derive(Debug, clap::Args)]
pub(super) struct Export {
    /// The file to write [default: stdout]
    file: Option<PathBuf>,
    /// The last days, today included, in UTC
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=365))]
    days: u16,
    /// The form of the rows
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values, under a line of headings
    Csv,
    /// A JSON object on each line
    Ndjson,
}

pub(super) async fn run(wanted: Export, name: &ProjectName, client: &Client, output: Output) -> anyhow::Result<()> {
    let Export { file, days, format } = wanted;
    // One document holds rows, whichever form a file would have.
    let format = if output.is_json() && file.is_none() { Format::Ndjson } else { format };
    let form = if format == Format::Csv { "csv" } else { "ndjson" };
    let path = format!("/projects/{name}/stats/export?days={days}&format={form}");
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
    let rows = read.map_err(|_| Failure::new(Kind::Unreachable, "unexpected_answer", "The export cannot be read."))?;
    output.result(&json!({ "rows": rows }), String::new)
}
