//! Printing. Results go to stdout, so that they can be piped; commentary goes to stderr.
//!
//! With `--json`, stdout holds exactly one document, whether the command succeeded or not.
//!
//! Much of the output comes from a server, and a terminal obeys control characters, which can set its title and
//! clipboard, or hide and repaint earlier output. So all text goes through [`StandardStream::print`], which removes them.

mod columns;
pub(crate) mod money;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use console::{Style, Term, measure_text_width, truncate_str, user_attended_stderr};
use domain::Timestamp;
pub(crate) use domain::size;
use indicatif::{ProgressBar, ProgressState, ProgressStyle, style::ProgressTracker};
use serde::Serialize;

use crate::failure::{ErrorReport, Failure};

/// The narrowest terminal that tables are fitted to; in a narrower one lines wrap.
const LEAST_WIDTH: usize = 24;
const TICK: Duration = Duration::from_millis(80);
/// Surrounds words that are dimmed on a terminal. It is a private-use character instead of an escape sequence, so text
/// from a server can at most appear dim.
const DIM: char = '\u{f5d0}';
const BOLD: char = '\u{f5d1}';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StandardStream {
    Out,
    Err,
}

/// How results and commentary are printed: for people or as JSON. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    yes: bool,
    now: Timestamp,
}

impl Output {
    pub(crate) fn new(json: bool, now: Timestamp) -> Self {
        Self { json, quiet: false, yes: false, now }
    }

    /// Returns this output without commentary and progress if `quiet`. Results, warnings and failures remain.
    pub(crate) fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Returns this output with every question answered in advance if `yes`.
    pub(crate) fn with_yes(self, yes: bool) -> Self {
        Self { yes, ..self }
    }

    pub(crate) fn is_agreed(self) -> bool {
        self.yes
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Returns whether a person can answer a question.
    pub(crate) fn can_ask(self) -> bool {
        !self.json && console::user_attended() && user_attended_stderr()
    }

    /// Prints the command's result: `value` with `--json`, else what `human` returns.
    pub(crate) fn result<T: Serialize>(self, value: &T, human: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json { print_json(value) } else { StandardStream::Out.print(&human()) }
    }

    /// Prints the command's result like [`Output::result`], but unchanged to a pipe or a file, with control characters.
    pub(crate) fn exact<T: Serialize>(self, value: &T, human: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json || io::stdout().is_terminal() {
            return self.result(value, human);
        }
        StandardStream::Out.write(&human())
    }

    /// Prints a list: `{"key": [items]}` with `--json`, else a line for each item, or `nothing` if it is empty.
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

    /// Prints commentary. It is left out with `--json`, because the document contains it.
    pub(crate) fn note(self, text: &str) {
        if !self.json && !self.quiet {
            print_stderr(text);
        }
    }

    pub(crate) fn success(self, text: &str) {
        if !self.json && !self.quiet {
            print_marked(&Style::new().green(), "✓", text);
        }
    }

    pub(crate) fn failure(self, failure: &Failure) {
        if self.json {
            // If stdout cannot be written to, there is nothing left to do.
            let _ = print_json(&ErrorReport::from(failure));
            return;
        }
        print_marked(&Style::new().red(), "error:", &failure.message);
        if let Some(hint) = &failure.hint {
            print_stderr(hint);
        }
    }

    /// Asks a yes-or-no question. Any answer but yes is no, and so is the absence of a person. `--yes` does not answer
    /// it; callers that accept `--yes` check [`Output::is_agreed`] first.
    pub(crate) fn confirm(self, question: &str) -> anyhow::Result<bool> {
        let answer = self.ask(&format!("{question} [y/N] "))?.unwrap_or_default();
        Ok(["y", "yes"].contains(&answer.to_ascii_lowercase().as_str()))
    }

    /// Asks the person to type `name` before the action that `what` describes, unless `--yes` was given. Fails if the
    /// name differs or no person is there.
    pub(crate) fn confirm_by_name(self, what: &str, name: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        let Some(typed) = self.ask(&format!("{what} Type its name: "))? else {
            return Err(Failure::usage(format!("{what} Nobody is here to confirm it.")).with_hint("Add --yes.").into());
        };
        if typed == name { Ok(()) } else { Err(Failure::refused("not_confirmed", "Nothing was changed.").into()) }
    }

    /// Asks for a line; returns `None` if no person is there.
    pub(crate) fn ask(self, question: &str) -> anyhow::Result<Option<String>> {
        if !self.can_ask() {
            return Ok(None);
        }
        let terminal = Term::stderr();
        terminal.write_str(&printable(question, false))?;
        Ok(Some(terminal.read_line()?.trim().to_owned()))
    }

    /// Shows a spinner with a text; hidden if stderr is not a terminal.
    pub(crate) fn spinner(self, text: impl Into<String>) -> ProgressBar {
        let bar = self.bar(None, "{spinner:.cyan} {msg}");
        bar.set_message(text.into());
        bar.enable_steady_tick(TICK);
        bar
    }

    /// Shows a progress bar over a number of bytes; hidden if stderr is not a terminal.
    pub(crate) fn byte_bar(self, text: impl Into<String>, bytes: u64) -> ProgressBar {
        const TEMPLATE: &str = "{spinner:.cyan} {msg} [{bar:28.cyan/dim}] \
                                {done} of {all}, {pace} a second";
        let bar = self.bar(Some(bytes), TEMPLATE);
        bar.set_message(text.into());
        bar.enable_steady_tick(TICK);
        bar
    }

    fn bar(self, len: Option<u64>, template: &str) -> ProgressBar {
        if self.json || self.quiet || !user_attended_stderr() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style
            .with_key("done", byte_tracker(ProgressState::pos))
            .with_key("all", byte_tracker(|state| state.len().unwrap_or_default()));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a pace that is shown, and is never below 0"
        )]
        let style = style.with_key("pace", byte_tracker(|state| state.per_sec() as u64));
        let bar = len.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        bar.set_style(style.progress_chars("━━╌"));
        bar
    }

    /// Formats the distance of an instant from now in its largest fitting unit: `3 hours ago`, `in 6 days`.
    pub(crate) fn relative(self, instant: Timestamp) -> String {
        if instant > self.now {
            format!("in {}", rough(instant.since(self.now)))
        } else {
            let age = self.now.since(instant);
            if age < Duration::from_secs(1) { "just now".to_owned() } else { format!("{} ago", rough(age)) }
        }
    }
}

impl StandardStream {
    /// Prints text without its control characters, and a line break.
    fn print(self, text: &str) -> anyhow::Result<()> {
        self.write(&printable(text, self.has_colors()))
    }

    fn has_colors(self) -> bool {
        match self {
            Self::Out => console::colors_enabled(),
            Self::Err => console::colors_enabled_stderr(),
        }
    }

    /// Writes text unchanged, and a line break.
    fn write(self, text: &str) -> anyhow::Result<()> {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let write = |to: &mut dyn io::Write| {
            to.write_all(text.as_bytes()).and_then(|()| to.write_all(end.as_bytes())).and_then(|()| to.flush())
        };
        let written = match self {
            Self::Out => write(&mut io::stdout().lock()),
            Self::Err => write(&mut io::stderr().lock()),
        };
        match written {
            // In `svc projects | head`, the reader has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self == Self::Out => std::process::exit(0),
            written => Ok(written?),
        }
    }
}

/// Removes from text what could control a terminal, and renders or removes our own marks.
fn printable(text: &str, colors: bool) -> String {
    let (mut out, mut dim, mut bold) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        let (mark, on) = match c {
            DIM => (&mut dim, "\x1b[2m"),
            BOLD => (&mut bold, "\x1b[1m"),
            c if is_control(c) => continue,
            c => {
                out.push(c);
                continue;
            }
        };
        *mark = !*mark;
        if colors {
            out.push_str(if *mark { on } else { "\x1b[0m" });
        }
    }
    if colors && (dim || bold) {
        out.push_str("\x1b[0m");
    }
    out
}

/// Returns whether a terminal acts upon the character instead of showing it, or reorders the text around it.
fn is_control(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || reorders
}

/// Prints part of a longer text as it arrives.
pub(crate) fn print_part(words: &str) {
    let words: String = words.chars().filter(|c| !is_control(*c)).collect();
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(words.as_bytes()).and_then(|()| stdout.flush())
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// Prints a JSON document, escaping the control characters that JSON itself does not. They occur only in strings.
fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(value)?;
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control(c) {
            write!(text, "\\u{:04x}", u32::from(c))?;
        } else {
            text.push(c);
        }
    }
    StandardStream::Out.write(&text)
}

pub(crate) fn warning(text: &str) {
    print_marked(&Style::new().yellow(), "warning:", text);
}

/// Prints a line to stderr, also with `--json`.
pub(crate) fn print_stderr(text: &str) {
    // Commentary that cannot be printed is not an error.
    let _ = StandardStream::Err.print(text);
}

/// Leaves the line of a progress bar or a question, and shows the cursor again.
pub(crate) fn leave_line() {
    let terminal = Term::stderr();
    if terminal.is_term() {
        // Best effort.
        let _ = terminal.clear_line().and_then(|()| terminal.show_cursor());
    }
}

pub(crate) fn trace(text: &str) {
    print_stderr(&format!("{DIM}{text}{DIM}"));
}

/// Clears the terminal before the next output. Does nothing to a pipe or a file.
pub(crate) fn clear() {
    let terminal = Term::stdout();
    if terminal.is_term() {
        // If the screen cannot be cleared, the output follows below.
        let _ = terminal.clear_screen();
    }
}

/// Prints a line to stderr after `sign`, which is bold and in the color of `style`.
fn print_marked(style: &Style, sign: &str, text: &str) {
    let sign = style.clone().for_stderr().bold().apply_to(sign);
    let _ = StandardStream::Err.write(&format!("{sign} {}", printable(text, StandardStream::Err.has_colors())));
}

pub(crate) fn bold(words: &str) -> String {
    format!("{BOLD}{words}{BOLD}")
}

/// Formats items like [`Output::list`], for a list within a larger result.
pub(crate) fn lines<T>(items: &[T], headings: &[&str], nothing: &str, line: impl FnMut(&T) -> Vec<String>) -> String {
    let rows: Vec<Vec<String>> = items.iter().map(line).collect();
    table(headings, &rows, nothing)
}

/// Formats rows as aligned columns under `headings`, fitted to the terminal's width; `nothing` if there are no rows.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>], nothing: &str) -> String {
    table_within(width(), headings, rows, nothing)
}

/// Returns the width of the terminal; `None` for a pipe or a file, which receives everything.
pub(crate) fn width() -> Option<usize> {
    let terminal = Term::stdout();
    let (_, columns) = terminal.is_term().then(|| terminal.size_checked())??;
    Some(usize::from(columns).max(LEAST_WIDTH))
}

fn table_within(room: Option<usize>, headings: &[&str], rows: &[Vec<String>], nothing: &str) -> String {
    if rows.is_empty() {
        return nothing.to_owned();
    }
    // A line break in a cell could fake a row.
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| printable(cell, false).replace(['\n', '\t'], " ")).collect())
        .collect();
    let columns = columns::fit(room, headings, &rows);
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let shown = cells.zip(&columns).filter_map(|(cell, width)| {
            let width = (*width)?;
            let cell = truncate_str(cell, width, "…");
            let padding = " ".repeat(width.saturating_sub(measure_text_width(&cell)));
            Some(format!("{cell}{padding}"))
        });
        shown.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let heading = format!("{DIM}{}{DIM}", line(&mut headings.iter().copied()));
    let body = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    std::iter::once(heading).chain(body).collect::<Vec<_>>().join("\n")
}

/// Formats a byte count of a progress bar's state.
fn byte_tracker(of: impl Fn(&ProgressState) -> u64 + Clone + Send + Sync + 'static) -> impl ProgressTracker {
    move |state: &ProgressState, writer: &mut dyn fmt::Write| {
        // A size that cannot be written is left out.
        let _ = writer.write_str(&size(of(state)));
    }
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
    // Round instead of truncating: a share for 7 days has 6.99 days left a moment later.
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
        let text = printable(&table(&["N", "V"], &rows, "none"), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..], ["a   x", "öl  y"]);
        assert_eq!(table(&["N"], &[], "No projects."), "No projects.");
    }

    #[test]
    fn a_row_is_no_wider_than_the_terminal_or_its_name() {
        let row = |name: &str| {
            let cells = [name, "deployed", "3 hours ago", "https://a-name-of-a-site.svc.example.com", "", "████████"];
            cells.map(str::to_owned).to_vec()
        };
        let rows = [row("one"), row("öl-und-essig-versandhandel-münchen")];
        let headings = ["NAME", "STATE", "CREATED", "ADDRESS", "NOTE", ""];
        for room in [24, 30, 40, 60, 80, 100, 140] {
            let text = printable(&table_within(Some(room), &headings, &rows, ""), false);
            assert!(text.lines().all(|line| measure_text_width(line) <= room.max(34)), "{room}:\n{text}");
            // Names and addresses are meant to be copied: they are shown whole or not at all.
            assert!(text.contains("one") && text.contains("münchen"), "{room}:\n{text}");
            assert_eq!(text.matches("https").count(), text.matches(".example.com").count(), "{room}:\n{text}");
        }
        let whole = printable(&table_within(None, &headings, &rows, ""), false);
        assert!(whole.contains("münchen") && whole.contains("example.com") && whole.contains("NOTE"), "{whole}");
        let sixty = printable(&table_within(Some(60), &headings, &rows, ""), false);
        assert!(!sixty.contains("ADDRESS") && !sixty.contains("NOTE") && !sixty.contains('█'), "{sixty}");
        assert!(sixty.contains("deployed"), "{sixty}");
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(1_097, "file"), "1,097 files");
    }

    #[test]
    fn nothing_that_is_printed_steers_the_terminal() {
        let hostile = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\rd\u{9b}31me\x7ff\u{202e}g\n\th";
        assert_eq!(printable(hostile, true), "a]52;c;ZXZpbA==b[2Jcd31mefg\n\th");
        assert_eq!(printable(&bold("x"), true), "\x1b[1mx\x1b[0m");
        assert_eq!(printable(&bold("x"), false), "x");
        assert_eq!(printable(&format!("{DIM}x"), true), "\x1b[2mx\x1b[0m", "what a server marks ends with its text");
        let rows = [vec!["one\ntwo\x1b[2J".to_owned()]];
        assert!(table(&["N"], &rows, "").ends_with("one two[2J"));
    }
}
