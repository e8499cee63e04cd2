//! Printing. Results go to stdout, so that they can be piped; commentary goes to stderr.
//!
//! With `--json`, stdout holds exactly one document, whether the command succeeded or not.
//!
//! Much of what is printed came from a server, and a terminal obeys control characters: they set its title and its
//! clipboard, and hide or repaint what stands above. So every text goes through [`Stream::print`], which leaves them out.

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

use crate::failure::{Failure, Report};

/// The narrowest terminal that tables are fitted to; in a narrower one lines wrap.
const LEAST_WIDTH: usize = 24;
/// The pause between two frames of a spinner.
const TICK: Duration = Duration::from_millis(80);
/// Before and after words that are dimmed on a terminal. A private-use character and no escape sequence: what a server
/// sends may look dim because of it, and no more.
const DIM: char = '\u{f5d0}';
/// The mark in a text that begins words in bold, or ends them.
const BOLD: char = '\u{f5d1}';

/// A standard stream that text is printed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// The way results and commentary are printed: for people or as JSON. Cheap to copy.
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

    /// This output, without commentary and progress when `quiet`: what remains are results, warnings and failures.
    pub(crate) fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// This output, with every question answered beforehand when `yes`.
    pub(crate) fn agreeing(self, yes: bool) -> Self {
        Self { yes, ..self }
    }

    /// Whether `--yes` was given.
    pub(crate) fn is_agreed(self) -> bool {
        self.yes
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
        if self.json { print_json(value) } else { Stream::Out.print(&human()) }
    }

    /// Prints the command's result as [`Output::result`] does, but to a pipe or a file exactly as it is: a stored value
    /// belongs to whoever reads it, whatever characters it has.
    pub(crate) fn exact<T: Serialize>(self, value: &T, human: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json || io::stdout().is_terminal() {
            return self.result(value, human);
        }
        Stream::Out.write(&human())
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
        if !self.json && !self.quiet {
            tell(text);
        }
    }

    /// Prints commentary that something succeeded.
    pub(crate) fn success(self, text: &str) {
        if !self.json && !self.quiet {
            tell_after(&Style::new().green(), "✓", text);
        }
    }

    /// Prints the failure that ended the command.
    pub(crate) fn failure(self, failure: &Failure) {
        if self.json {
            // Nothing is left to be done about an unwritable stdout.
            let _ = print_json(&Report::from(failure));
            return;
        }
        tell_after(&Style::new().red(), "error:", &failure.message);
        if let Some(hint) = &failure.hint {
            tell(hint);
        }
    }

    /// Asks a question that is answered with yes or no; whatever is not a yes is a no, and so is nobody there. `--yes` does not
    /// answer it: where it does, [`Output::is_agreed`] is asked first.
    pub(crate) fn confirm(self, question: &str) -> anyhow::Result<bool> {
        let answer = self.ask(&format!("{question} [y/N] "))?.unwrap_or_default();
        Ok(["y", "yes"].contains(&answer.to_ascii_lowercase().as_str()))
    }

    /// Has the person type `name` before what `what` says is done, unless `--yes` was given. Fails when something else is typed, and
    /// when nobody is there.
    pub(crate) fn confirm_by_name(self, what: &str, name: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        let Some(typed) = self.ask(&format!("{what} Type its name: "))? else {
            return Err(Failure::usage(format!("{what} Nobody is here to confirm it.")).with_hint("Add --yes.").into());
        };
        if typed == name { Ok(()) } else { Err(Failure::refused("not_confirmed", "Nothing was changed.").into()) }
    }

    /// Asks for a line; none when nobody is there to write one.
    pub(crate) fn ask(self, question: &str) -> anyhow::Result<Option<String>> {
        if !self.can_ask() {
            return Ok(None);
        }
        let terminal = Term::stderr();
        terminal.write_str(&drawn(question, false))?;
        Ok(Some(terminal.read_line()?.trim().to_owned()))
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
            .with_key("done", sized(ProgressState::pos))
            .with_key("all", sized(|state| state.len().unwrap_or_default()));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a pace that is shown, and is never below 0"
        )]
        let style = style.with_key("pace", sized(|state| state.per_sec() as u64));
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

impl Stream {
    /// Prints text without its control characters, and ends the line.
    fn print(self, text: &str) -> anyhow::Result<()> {
        self.write(&drawn(text, self.has_colors()))
    }

    fn has_colors(self) -> bool {
        match self {
            Self::Out => console::colors_enabled(),
            Self::Err => console::colors_enabled_stderr(),
        }
    }

    /// Writes text as it is, and ends the line.
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
            // `svc projects | head`: the reader has what it wanted.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self == Self::Out => std::process::exit(0),
            written => Ok(written?),
        }
    }
}

/// Text as it is printed: without what could steer a terminal, and with our own marks drawn or taken out.
fn drawn(text: &str, colors: bool) -> String {
    let (mut out, mut dim, mut bold) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        let (mark, on) = match c {
            DIM => (&mut dim, "\x1b[2m"),
            BOLD => (&mut bold, "\x1b[1m"),
            c if steers(c) => continue,
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

/// Whether a terminal acts upon the character instead of showing it, or shows the text around it in another order.
fn steers(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || reorders
}

/// Prints words of a longer text as they arrive, without control characters.
pub(crate) fn say(words: &str) {
    let words: String = words.chars().filter(|c| !steers(*c)).collect();
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(words.as_bytes()).and_then(|()| stdout.flush())
        && error.kind() == io::ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// Prints a JSON document. JSON itself escapes only some of the control characters; the others stand in strings alone,
/// where their escaped form means the same.
fn print_json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(value)?;
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if steers(c) {
            write!(text, "\\u{:04x}", u32::from(c))?;
        } else {
            text.push(c);
        }
    }
    Stream::Out.write(&text)
}

/// Prints a warning to stderr: no failure, but worth knowing.
pub(crate) fn warning(text: &str) {
    tell_after(&Style::new().yellow(), "warning:", text);
}

/// Prints a line to stderr, also with `--json`.
pub(crate) fn tell(text: &str) {
    // Commentary that nobody can read is no reason to fail.
    let _ = Stream::Err.print(text);
}

/// Leaves the line on which a progress bar or a question stands, and shows the cursor that it hid.
pub(crate) fn leave_line() {
    let terminal = Term::stderr();
    if terminal.is_term() {
        // What cannot be cleared stays.
        let _ = terminal.clear_line().and_then(|()| terminal.show_cursor());
    }
}

/// Prints dimmed commentary to stderr, for `--verbose`.
pub(crate) fn trace(text: &str) {
    tell(&format!("{DIM}{text}{DIM}"));
}

/// Clears the terminal, so that what is printed next takes the place of what was there. Does nothing to a pipe or a file.
pub(crate) fn clear() {
    let terminal = Term::stdout();
    if terminal.is_term() {
        // What cannot be cleared is printed below.
        let _ = terminal.clear_screen();
    }
}

/// Prints a line to stderr that begins with `sign`, in bold and in the colour of `style`.
fn tell_after(style: &Style, sign: &str, text: &str) {
    let sign = style.clone().for_stderr().bold().apply_to(sign);
    let _ = Stream::Err.write(&format!("{sign} {}", drawn(text, Stream::Err.has_colors())));
}

/// Marks words that are printed in bold on a terminal.
pub(crate) fn bold(words: &str) -> String {
    format!("{BOLD}{words}{BOLD}")
}

/// Formats items as [`Output::list`] prints them, for a list within a larger result.
pub(crate) fn lines<T>(items: &[T], headings: &[&str], nothing: &str, line: impl FnMut(&T) -> Vec<String>) -> String {
    let rows: Vec<Vec<String>> = items.iter().map(line).collect();
    table(headings, &rows, nothing)
}

/// Formats rows as aligned columns under `headings`; `nothing` when there are no rows. On a terminal the columns fit its width.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>], nothing: &str) -> String {
    table_within(width(), headings, rows, nothing)
}

/// The width of the terminal that results are printed to; none for a pipe or a file, whose reader wants all of it.
pub(crate) fn width() -> Option<usize> {
    let terminal = Term::stdout();
    let (_, columns) = terminal.is_term().then(|| terminal.size_checked())??;
    Some(usize::from(columns).max(LEAST_WIDTH))
}

fn table_within(room: Option<usize>, headings: &[&str], rows: &[Vec<String>], nothing: &str) -> String {
    if rows.is_empty() {
        return nothing.to_owned();
    }
    // A line break in a cell would begin a row that nobody sent.
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| drawn(cell, false).replace(['\n', '\t'], " ")).collect()).collect();
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

/// A part of a progress bar: a number of bytes of its state.
fn sized(of: impl Fn(&ProgressState) -> u64 + Clone + Send + Sync + 'static) -> impl ProgressTracker {
    move |state: &ProgressState, writer: &mut dyn fmt::Write| {
        // What cannot be written is not shown.
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
        let text = drawn(&table(&["N", "V"], &rows, "none"), false);
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
            let text = drawn(&table_within(Some(room), &headings, &rows, ""), false);
            assert!(text.lines().all(|line| measure_text_width(line) <= room.max(34)), "{room}:\n{text}");
            // Names are copied, and so are addresses: they are whole, or not there.
            assert!(text.contains("one") && text.contains("münchen"), "{room}:\n{text}");
            assert_eq!(text.matches("https").count(), text.matches(".example.com").count(), "{room}:\n{text}");
        }
        let whole = drawn(&table_within(None, &headings, &rows, ""), false);
        assert!(whole.contains("münchen") && whole.contains("example.com") && whole.contains("NOTE"), "{whole}");
        let sixty = drawn(&table_within(Some(60), &headings, &rows, ""), false);
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
        assert_eq!(drawn(hostile, true), "a]52;c;ZXZpbA==b[2Jcd31mefg\n\th");
        assert_eq!(drawn(&bold("x"), true), "\x1b[1mx\x1b[0m");
        assert_eq!(drawn(&bold("x"), false), "x");
        assert_eq!(drawn(&format!("{DIM}x"), true), "\x1b[2mx\x1b[0m", "what a server marks ends with its text");
        let rows = [vec!["one\ntwo\x1b[2J".to_owned()]];
        assert!(table(&["N"], &rows, "").ends_with("one two[2J"));
    }
}
