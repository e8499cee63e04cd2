//! Printing. Results go to stdout, so that they can be piped; commentary goes to stderr.
//!
//! With `--json`, stdout holds exactly one document, whether the command succeeded or not.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    time::Duration,
};

use console::{Style, measure_text_width, user_attended_stderr};
use domain::Timestamp;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::{Failure, Report};

/// The pause between two frames of a spinner.
const TICK: Duration = Duration::from_millis(80);

/// The way results and commentary are printed: for people or as JSON. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    now: Timestamp,
}

impl Output {
    pub(crate) fn new(json: bool, now: Timestamp) -> Self {
        Self { json, now }
    }

    /// Whether `--json` was given.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether a person is there to answer a question.
    pub(crate) fn can_ask(self) -> bool {
        !self.json && console::user_attended() && user_attended_stderr()
    }

    /// Prints the command's result: `value` with `--json`, else what `human` returns.
    pub(crate) fn result<T: Serialize>(self, value: &T, human: impl FnOnce() -> String) -> anyhow::Result<()> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { human() };
        write_stdout(&text)
    }

    /// Prints a list: `{"key": [items]}` with `--json`, else a line for each item, or `nothing` when there is none.
    pub(crate) fn list<T: Serialize>(
        self,
        key: &str,
        items: &[T],
        headings: &[&str],
        nothing: &str,
        line: impl FnMut(&T) -> Vec<String>,
    ) -> anyhow::Result<()> {
        self.result(&BTreeMap::from([(key, items)]), || lines(items, headings, nothing, line))
    }

    /// Prints commentary on what is happening or was decided. With `--json` it is left out: the document says it.
    pub(crate) fn note(self, text: &str) {
        if !self.json {
            tell(text);
        }
    }

    /// Prints commentary that something succeeded.
    pub(crate) fn success(self, text: &str) {
        self.note(&format!("{} {text}", Style::new().for_stderr().green().bold().apply_to("✓")));
    }

    /// Prints the failure that ended the command.
    pub(crate) fn failure(self, failure: &Failure) {
        if self.json {
            let report = serde_json::to_string_pretty(&Report::from(failure)).unwrap_or_default();
            // Nothing is left to be done about an unwritable stdout.
            let _ = write_stdout(&report);
            return;
        }
        tell(&format!("{} {}", Style::new().for_stderr().red().bold().apply_to("error:"), failure.message));
        if let Some(hint) = &failure.hint {
            tell(hint);
        }
    }

    /// A spinner beside `message`; hidden when stderr is no terminal.
    pub(crate) fn spinner(self, text: impl Into<String>) -> ProgressBar {
        let bar = self.bar(None, "{spinner:.cyan} {msg}");
        bar.set_message(text.into());
        bar.enable_steady_tick(TICK);
        bar
    }

    /// A progress bar over `total` bytes; hidden when stderr is no terminal.
    pub(crate) fn byte_bar(self, text: impl Into<String>, bytes: u64) -> ProgressBar {
        let bar = self
            .bar(Some(bytes), "{spinner:.cyan} {msg} [{bar:28.cyan/dim}] {bytes}/{total_bytes} {binary_bytes_per_sec}");
        bar.set_message(text.into());
        bar.enable_steady_tick(TICK);
        bar
    }

    fn bar(self, len: Option<u64>, template: &str) -> ProgressBar {
        if self.json || !user_attended_stderr() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = len.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        bar.set_style(style.progress_chars("━━╌"));
        bar
    }

    /// The distance of `time` from now, in its largest fitting unit: `3 hours ago`, `in 6 days`.
    pub(crate) fn relative(self, instant: Timestamp) -> String {
        if instant > self.now {
            format!("in {}", rough(instant.since(self.now)))
        } else {
            let age = self.now.since(instant);
            if age < Duration::from_secs(1) { "just now".to_owned() } else { format!("{} ago", rough(age)) }
        }
    }
}

fn write_stdout(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| {
        if !text.is_empty() && !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    });
    match written {
        // `svc projects | head`: the reader has what it wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// Prints a warning to stderr: no failure, but worth knowing.
pub(crate) fn warning(text: &str) {
    tell(&format!("{} {text}", Style::new().for_stderr().yellow().bold().apply_to("warning:")));
}

/// Prints a line to stderr, also with `--json`.
pub(crate) fn tell(text: &str) {
    // Commentary that nobody can read is no reason to fail.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Formats items as [`Output::list`] prints them, for a list within a larger result.
pub(crate) fn lines<T>(items: &[T], headings: &[&str], nothing: &str, line: impl FnMut(&T) -> Vec<String>) -> String {
    let rows: Vec<Vec<String>> = items.iter().map(line).collect();
    table(headings, &rows, nothing)
}

/// Formats rows as aligned columns under `headings`; `nothing` when there are no rows.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>], nothing: &str) -> String {
    if rows.is_empty() {
        return nothing.to_owned();
    }
    let mut widths: Vec<usize> = headings.iter().map(|heading| measure_text_width(heading)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(measure_text_width(cell));
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell}{}", " ".repeat(width.saturating_sub(measure_text_width(cell)))))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let heading = Style::new().dim().apply_to(line(&mut headings.iter().copied())).to_string();
    let body = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(heading).chain(body).collect::<Vec<_>>().join("\n")
}

/// Formats a number of bytes: `62.1 MB`.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string().replace("iB", "B")
}

/// Formats a count with its noun: `1 file`, `1,097 files`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", indicatif::HumanCount(number))
}

fn rough(duration: Duration) -> String {
    const STEPS: [(u64, &str); 5] =
        [(365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute")];
    let seconds = duration.as_secs();
    // A share for 7 days, looked at a moment later, has 6.99 days left: round, do not truncate.
    let (unit, noun) = STEPS.into_iter().find(|(unit, _)| seconds + unit / 200 >= *unit).unwrap_or((1, "second"));
    count((seconds + unit / 2) / unit, noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_largest_fitting_unit() {
        let now = Timestamp::from_unix_millis(1_700_000_000_000);
        let output = Output::new(false, now);
        for (seconds, told) in [
            (1, "1 second ago"),
            (59, "59 seconds ago"),
            (61, "1 minute ago"),
            (3 * 3_600 + 100, "3 hours ago"),
            (40 * 86_400, "1 month ago"),
        ] {
            assert_eq!(output.relative(now - Duration::from_secs(seconds)), told);
        }
        assert_eq!(output.relative(now), "just now");
        assert_eq!(output.relative(now + Duration::from_secs(7 * 86_400 - 2)), "in 7 days");
        assert_eq!(output.relative(now + Duration::from_secs(86_400 - 2)), "in 1 day");
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = [vec!["a".to_owned(), "x".to_owned()], vec!["öl".to_owned(), "y".to_owned()]];
        let text = table(&["N", "V"], &rows, "none");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..], ["a   x", "öl  y"]);
        assert_eq!(table(&["N"], &[], "No projects."), "No projects.");
    }

    #[test]
    fn sizes_and_counts_read_well() {
        assert_eq!(size(1_536), "1.50 KB");
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(1_097, "file"), "1,097 files");
    }
}
