//! `_headers` and `_redirects` at a site's root, in Cloudflare Pages' syntax, and `robots.txt`.
//!
//! They are compiled at upload ([`headers`], [`redirects`], [`robots`]) and matched by the edge ([`path`],
//! [`pattern`]). Invalid lines never fail a deployment: they are skipped, with a warning in the first two files.

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

pub use conditions::QueryParameters;
pub use template::PathCaptures;

use crate::manifest::{PathPattern, PatternSegment};

/// Name of the file of header rules, at the root.
pub const HEADERS_FILE: &str = "_headers";
/// Name of the file of redirect rules, at the root.
pub const REDIRECTS_FILE: &str = "_redirects";
/// Bytes of `_headers` that are read; the rest is ignored.
pub const RULES_BYTES: usize = 100 * 1024;
/// Bytes of `_redirects` that are read: enough for the maximum number of rules, each of maximum length.
pub const REDIRECTS_BYTES: usize = 9 * 1024 * 1024;
/// Maximum bytes of a header's value or a redirect's target after its placeholders are filled in. Each placeholder of a
/// few bytes can expand to the whole path, so the length of a rule is no bound.
pub const VALUE_BYTES: usize = 2 * 1024;
const LINE_CHARS: usize = 2_000;
/// Maximum warnings per file: one of each kind of mistake helps more than a thousand of one kind.
const WARNINGS: usize = 50;

/// Returns whether `c` is white space, as in JavaScript: lines are trimmed of it, and words end at it.
fn is_space(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// Returns the numbered lines of a rules file that have content. Problems with the others go to `warnings`.
fn lines<'a>(text: &'a str, warnings: &mut RuleWarnings) -> Vec<(usize, &'a str)> {
    // The line end of classic Macs; in other files it is white space.
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

/// The warning for a line that is not UTF-8, such as one in Latin-1. Read as UTF-8, its path would never be requested.
const NOT_UTF8: &str =
    "not UTF-8, so the line was left out; save the file as UTF-8 (in PowerShell by `-Encoding utf8`)";

/// Returns whether a line of a file read by [`read_text`] had bytes that are not UTF-8.
fn is_mangled(line: &str) -> bool {
    line.contains(char::REPLACEMENT_CHARACTER)
}

/// Returns the proper name of a rules file if `path` is a misnamed or misplaced one. Its content, which may include
/// passwords, is for the service and not for visitors.
pub(crate) fn proper_name(path: &str) -> Option<&'static str> {
    if path == HEADERS_FILE || path == REDIRECTS_FILE {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let plain = domain::private_files::without_backup_marks(&name);
    // Windows editors append it and hide it.
    let plain = plain.strip_suffix(".txt").unwrap_or(plain);
    [HEADERS_FILE, REDIRECTS_FILE].into_iter().find(|file| {
        plain == *file
            || plain.strip_prefix('.').is_some_and(|rest| rest == *file && name.rsplit('.').next() == Some("swp"))
    })
}

/// Returns the text of a rules file that counts: at most `most` bytes in complete lines, because half of one could be a
/// rule that nobody wrote. Bytes that are not UTF-8 invalidate their lines ([`is_mangled`]), or the file if all of it
/// is in another encoding.
fn read_text<'b>(bytes: &'b [u8], most: usize, warnings: &mut RuleWarnings) -> Cow<'b, str> {
    if is_utf16_or_utf32(bytes) {
        warnings.add_for_file(
            "the file is not UTF-8, so none of it counts; save it as UTF-8 (in PowerShell by `-Encoding utf8`)",
        );
        return Cow::Borrowed("");
    }
    let Some(counted) = bytes.get(..most).filter(|_| bytes.len() > most) else {
        return String::from_utf8_lossy(bytes);
    };
    let line_end = if bytes.contains(&b'\n') { b'\n' } else { b'\r' };
    let whole_lines = counted.iter().rposition(|&byte| byte == line_end).map_or(0, |end| end + 1);
    warnings.add_for_file(format_args!(
        "only the first {} count; the lines after them were left out",
        domain::size(most as u64)
    ));
    String::from_utf8_lossy(&counted[..whole_lines])
}

/// Returns whether a rules file as a whole is in UTF-16 or UTF-32, rather than in UTF-8 or an encoding similar to it.
fn is_utf16_or_utf32(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || bytes.contains(&0)
}

/// Keeps the first rules that fit into `most` bytes in total: packs from before this limit may contain more.
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

fn pattern_bytes(pattern: &PathPattern) -> usize {
    let segments = pattern.segments.iter().map(|segment| match segment {
        PatternSegment::Literal(text) | PatternSegment::Placeholder(text) => text.len(),
        PatternSegment::Splat => 1,
    });
    pattern.host.as_deref().map_or(0, str::len) + segments.sum::<usize>()
}

/// The skipped lines of a file, with the reasons.
struct RuleWarnings {
    file: &'static str,
    /// Warnings by line number; 0 for the whole file.
    said: Vec<(usize, String)>,
    unsaid: usize,
}

impl RuleWarnings {
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

    fn add_for_file(&mut self, why: impl Display) {
        self.said.push((0, format!("{}: {why}", self.file)));
    }

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
    fn a_long_file_is_cut_at_its_last_line_end_whatever_that_is() {
        for end in ["\n", "\r\n", "\r"] {
            let line = format!("/old /new{end}");
            let text = line.repeat(100);
            let mut warnings = RuleWarnings::new(REDIRECTS_FILE);
            let read = read_text(text.as_bytes(), line.len() * 10 + 5, &mut warnings);
            assert_eq!(read, line.repeat(10), "{end:?}");
            assert_eq!((lines(&read, &mut warnings).len(), warnings.into_vec().len()), (10, 1), "{end:?}");
        }
        let mut warnings = RuleWarnings::new(REDIRECTS_FILE);
        assert_eq!(read_text(b"/old /new/very/far", 12, &mut warnings), "", "half of a line is no rule");
    }

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
            assert_eq!(proper_name(path), wanted, "{path}");
        }
    }
}
