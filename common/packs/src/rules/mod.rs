//! `_headers` and `_redirects` at a site's root, in Cloudflare Pages' syntax.
//!
//! They are compiled at upload ([`headers`], [`redirects`]) and matched by the edge ([`pattern`]). A line that is wrong
//! never fails a deployment: it is left out and becomes a warning that names it.

pub mod headers;
pub mod pattern;
pub mod redirects;

use std::fmt::Display;

/// Name of the file of header rules, at the root.
pub const HEADERS_FILE: &str = "_headers";
/// Name of the file of redirect rules, at the root.
pub const REDIRECTS_FILE: &str = "_redirects";
/// Largest file of rules that is read; every rule at its longest would fit.
pub const RULES_BYTES: u64 = 5 * 1024 * 1024;
/// Characters of a line, at most.
const LINE_CHARS: usize = 2_000;
/// Warnings of one file, at most: one line of each kind of mistake is worth more than a thousand of one.
const WARNINGS: usize = 50;

/// The lines of a file of rules that mean something, with their numbers; what is wrong with the others goes into
/// `warnings`.
fn lines<'a>(text: &'a str, warnings: &mut Warnings) -> Vec<(usize, &'a str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.len() > LINE_CHARS {
            warnings.add(number, format_args!("longer than {LINE_CHARS} characters"));
            continue;
        }
        lines.push((number, line));
    }
    lines
}

/// The text of a file of rules. Bytes that are not UTF-8 only spoil the lines they are in.
fn text_of(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A line that was left out of a file, and the reason.
struct Warnings {
    file: &'static str,
    said: Vec<String>,
    unsaid: usize,
}

impl Warnings {
    fn new(file: &'static str) -> Self {
        Self { file, said: Vec::new(), unsaid: 0 }
    }

    fn add(&mut self, line: usize, why: impl Display) {
        if self.said.len() < WARNINGS {
            self.said.push(format!("{} line {line}: {why}", self.file));
        } else {
            self.unsaid += 1;
        }
    }

    fn into_vec(mut self) -> Vec<String> {
        if self.unsaid > 0 {
            self.said.push(format!("{}: {} more lines were left out", self.file, self.unsaid));
        }
        self.said
    }
}
