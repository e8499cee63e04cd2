//! `svc billing ledger`.

use std::path::PathBuf;

use domain::limits;
use serde_json::{Map, Value, json};

use super::{BillingAccount, invoices::write};
use crate::{
    failure::{Failure, FailureClass},
    output::{Output, table},
};

const LEDGER_BYTES: u64 = 100 * limits::MB;
/// The columns shown on a terminal; the file has more.
const SHOWN: [&str; 8] = ["time", "kind", "number", "plan", "net", "vat", "billed", "paid"];

pub(super) async fn show(scope: &BillingAccount<'_>, csv: Option<PathBuf>, output: Output) -> anyhow::Result<()> {
    let text = scope.client.get_text(&scope.path("/ledger.csv"), LEDGER_BYTES).await;
    let text = text.map_err(|failure| scope.explain(failure))?;
    if let Some(file) = csv {
        write(&file, text.as_bytes())?;
        output.success(&format!("Saved {}.", file.display()));
        return output.result(&json!({ "file": file, "bytes": text.len() }), String::new);
    }
    let rows = parse(&text);
    let Some((headings, entries)) = rows.split_first() else {
        let message = "The ledger cannot be read: it has no headings.";
        return Err(Failure::new(FailureClass::Unreachable, "unexpected_answer", message).into());
    };
    let named = |entry: &Vec<String>| -> Map<String, Value> {
        headings.iter().cloned().zip(entry.iter().cloned().map(Value::from)).collect()
    };
    let document = json!({ "entries": entries.iter().map(named).collect::<Vec<_>>() });
    output.result(&document, || {
        let shown: Vec<usize> =
            SHOWN.iter().filter_map(|name| headings.iter().position(|heading| heading == name)).collect();
        let pick = |row: &Vec<String>| shown.iter().map(|&at| row.get(at).cloned().unwrap_or_default()).collect();
        let rows: Vec<Vec<String>> = entries.iter().map(pick).collect();
        let capitals: Vec<String> = pick(headings).into_iter().map(|name: String| name.to_uppercase()).collect();
        let capitals: Vec<&str> = capitals.iter().map(String::as_str).collect();
        table(&capitals, &rows, "Nothing was billed or paid yet.")
    })
}

/// Parses rows of comma-separated values (RFC 4180).
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !is_quoted && chars.peek() == Some(&'\n') => {}
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let rows = parse("time,kind\r\n1,\"a,\"\"b\"\"\r\nc\"\r\n2,\r\n");
        assert_eq!(rows, [vec!["time", "kind"], vec!["1", "a,\"b\"\r\nc"], vec!["2", ""]]);
        assert_eq!(parse("a,b"), [["a", "b"]]);
        assert!(parse("").is_empty());
    }
}
