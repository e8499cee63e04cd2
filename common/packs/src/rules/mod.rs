//! `_headers` and `_redirects` at a site's root, in Cloudflare Pages' syntax, and what its `robots.txt` asks of programs.
//!
//! They are compiled at upload ([`headers`], [`redirects`], [`robots`]) and matched by the edge ([`path`], [`pattern`]). A line that is
//! wrong never fails a deployment: it is left out, and one of the first two becomes a warning that names it.

mod accounts;
mod circles;
mod conditions;
pub mod headers;
pub mod kept;
mod matching;
pub mod path;
pub mod pattern;
pub mod redirects;
pub mod robots;
mod template;

use std::{borrow::Cow, fmt::Display};

pub use conditions::Query;
pub use template::Captures;

use crate::manifest::{Pattern, Segment};

/// Name of the file of header rules, at the root.
pub const HEADERS_FILE: &str = "_headers";
/// Name of the file of redirect rules, at the root.
pub const REDIRECTS_FILE: &str = "_redirects";
/// Bytes of `_headers` that count; what follows them is left out.
pub const RULES_BYTES: usize = 100 * 1024;
/// Bytes of `_redirects` that count: as many lines as there may be rules have room, with whatever a line may say.
pub const REDIRECTS_BYTES: usize = 9 * 1024 * 1024;
/// Bytes of a header's value or a redirect's target, at most, when its placeholders are filled in. A few bytes of a
/// rule stand for as many as a path has, once for each placeholder, so that a rule by itself bounds nothing.
pub const VALUE_BYTES: usize = 2 * 1024;
/// Characters of a line, at most.
const LINE_CHARS: usize = 2_000;
/// Warnings of one file, at most: one line of each kind of mistake is worth more than a thousand of one.
const WARNINGS: usize = 50;

/// Whether lines are trimmed of `c`, and words end at it: what JavaScript takes for white space.
fn is_space(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// The lines of a file of rules that mean something, with their numbers; what is wrong with the others goes into
/// `warnings`.
fn lines<'a>(text: &'a str, warnings: &mut Warnings) -> Vec<(usize, &'a str)> {
    // Old Macs end lines so; to everybody else it is white space.
    let end = if text.contains('\n') { '\n' } else { '\r' };
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.split(end)) {
        let line = line.trim_matches(is_space);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.encode_utf16().count() > LINE_CHARS {
            warnings.add(number, format_args!("longer than {LINE_CHARS} characters"));
            continue;
        }
        lines.push((number, line));
    }
    lines
}

/// The warning for a line that is not UTF-8, such as one in Latin-1. Read as UTF-8, its path would be one that nobody asks for.
const NOT_UTF8: &str =
    "not UTF-8, so the line was left out; save the file as UTF-8 (in PowerShell by `-Encoding utf8`)";

/// Whether a line of a file that [`text_of`] read had bytes that are not UTF-8.
fn is_mangled(line: &str) -> bool {
    line.contains(char::REPLACEMENT_CHARACTER)
}

/// Returns the name that a file of rules must have, at the root, if `path` has another one that was meant for it. What such a file
/// says, passwords among it, is for the service and not for visitors.
pub(crate) fn meant_for(path: &str) -> Option<&'static str> {
    if path == HEADERS_FILE || path == REDIRECTS_FILE {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let plain = domain::private_files::without_backup_marks(&name);
    // Editors of Windows add it, and hide it.
    let plain = plain.strip_suffix(".txt").unwrap_or(plain);
    [HEADERS_FILE, REDIRECTS_FILE].into_iter().find(|file| {
        plain == *file
            || plain.strip_prefix('.').is_some_and(|rest| rest == *file && name.rsplit('.').next() == Some("swp"))
    })
}

/// The text of a file of rules, as far as it counts: `most` bytes, and whole lines only, since half of one could be a rule that
/// nobody wrote. Bytes that are not UTF-8 spoil the lines they are in ([`is_mangled`]), or all when the whole file is in another
/// encoding.
fn text_of<'b>(bytes: &'b [u8], most: usize, warnings: &mut Warnings) -> Cow<'b, str> {
    if is_of_another_encoding(bytes) {
        warnings.add_of_file(
            "the file is not UTF-8, so none of it counts; save it as UTF-8 (in PowerShell by `-Encoding utf8`)",
        );
        return Cow::Borrowed("");
    }
    let Some(counted) = bytes.get(..most).filter(|_| bytes.len() > most) else {
        return String::from_utf8_lossy(bytes);
    };
    let whole_lines = counted.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    warnings.add_of_file(format_args!(
        "only the first {} count; the lines after them were left out",
        domain::size(most as u64)
    ));
    String::from_utf8_lossy(&counted[..whole_lines])
}

/// Whether all of a file of rules is in another encoding than UTF-8 and those that are like it: UTF-16 or UTF-32.
fn is_of_another_encoding(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || bytes.contains(&0)
}

/// Keeps the rules that come first, as long as all that they say has room in one file of rules: packs that were made
/// before there was a bound may hold more.
fn within_bytes<T>(
    rules: impl IntoIterator<Item = T>,
    most: usize,
    bytes: impl Fn(&T) -> usize,
) -> impl Iterator<Item = T> {
    let mut left = most;
    rules.into_iter().take_while(move |rule| match left.checked_sub(bytes(rule)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    })
}

fn pattern_bytes(pattern: &Pattern) -> usize {
    let segments = pattern.segments.iter().map(|segment| match segment {
        Segment::Literal(text) | Segment::Placeholder(text) => text.len(),
        Segment::Splat => 1,
    });
    pattern.host.as_deref().map_or(0, str::len) + segments.sum::<usize>()
}

/// The lines that were left out of a file, and the reasons.
struct Warnings {
    file: &'static str,
    /// By the number of the line; 0 for the file as a whole.
    said: Vec<(usize, String)>,
    unsaid: usize,
}

impl Warnings {
    fn new(file: &'static str) -> Self {
        Self { file, said: Vec::new(), unsaid: 0 }
    }

    fn add(&mut self, line: usize, why: impl Display) {
        if self.said.len() < WARNINGS {
            self.said.push((line, format!("{} line {line}: {why}", self.file)));
        } else {
            self.unsaid += 1;
        }
    }

    fn add_of_file(&mut self, why: impl Display) {
        self.said.push((0, format!("{}: {why}", self.file)));
    }

    /// The warnings in the order of their lines.
    fn into_vec(mut self) -> Vec<String> {
        self.said.sort_by_key(|&(line, _)| line);
        let mut warnings: Vec<String> = self.said.into_iter().map(|(_, warning)| warning).collect();
        if self.unsaid > 0 {
            warnings.push(format!("{}: {} more lines were left out", self.file, self.unsaid));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_meant_for_rules_are_known() {
        for (path, wanted) in [
            ("sub/_headers", Some(HEADERS_FILE)),
            ("a/b/_redirects", Some(REDIRECTS_FILE)),
            ("_headers.txt", Some(HEADERS_FILE)),
            ("_redirects.txt", Some(REDIRECTS_FILE)),
            ("_Headers", Some(HEADERS_FILE)),
            ("_REDIRECTS.TXT", Some(REDIRECTS_FILE)),
            ("a/_Redirects", Some(REDIRECTS_FILE)),
            ("_headers~", Some(HEADERS_FILE)),
            ("_headers.bak", Some(HEADERS_FILE)),
            ("_headers.txt.bak", Some(HEADERS_FILE)),
            ("_headers.old", Some(HEADERS_FILE)),
            ("_redirects.orig", Some(REDIRECTS_FILE)),
            ("._headers.swp", Some(HEADERS_FILE)),
            ("_headers (1)", Some(HEADERS_FILE)),
            ("_headers", None),
            ("_redirects", None),
            ("headers", None),
            ("_headers.html", None),
            ("_headers.js", None),
            ("_headers/index.html", None),
            ("a_headers", None),
        ] {
            assert_eq!(meant_for(path), wanted, "{path}");
        }
    }
}
