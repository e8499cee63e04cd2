//! The path of a request in two spellings: the canonical one, in which paths and patterns are compared, and the one
//! that the visitor sent, from which wildcards are captured.

use std::{borrow::Cow, ops::Range};

use percent_encoding::{AsciiSet, percent_encode};

use super::pattern::ENCODED;

/// [`ENCODED`], for a text that already has escapes.
const UNSENDABLE: &AsciiSet = &ENCODED.remove(b'%');

/// A request's path, without its query.
#[derive(Debug)]
pub struct RequestPath<'p> {
    sent: &'p str,
    canonical: Cow<'p, str>,
    /// For each byte of `canonical`, the start of its character in `sent`, then the end. Empty if both are equal.
    places: Vec<usize>,
}

impl<'p> RequestPath<'p> {
    /// Creates a path from its sent spelling. The canonical spelling has each character decoded, then encoded where
    /// necessary. An encoded slash stays encoded: it separates nothing.
    pub fn new(sent: &'p str) -> Self {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&b);
        if sent.bytes().all(is_plain) {
            return Self { sent, canonical: Cow::Borrowed(sent), places: Vec::new() };
        }
        let (mut canonical, mut places) = (String::with_capacity(sent.len()), Vec::with_capacity(sent.len()));
        let (bytes, mut at) = (sent.as_bytes(), 0);
        while let Some(&byte) = bytes.get(at) {
            let escaped = escape_at(bytes, at);
            let before = canonical.len();
            match escaped {
                Some(b'/') => canonical.push_str("%2F"),
                _ => canonical.extend(percent_encode(&[escaped.unwrap_or(byte)], ENCODED)),
            }
            places.resize(places.len() + canonical.len() - before, at);
            at += if escaped.is_some() { 3 } else { 1 };
        }
        places.push(sent.len());
        Self { sent, canonical: Cow::Owned(canonical), places }
    }

    /// Returns the canonical spelling, in which paths and patterns are compared. It is ASCII.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    pub(super) fn into_canonical(self) -> String {
        self.canonical.into_owned()
    }

    /// Returns the sent spelling of a range of the canonical one, with all necessary escapes. Returns `None` if it
    /// would change the path that it is inserted into, as `..` does.
    pub(super) fn sent(&self, range: Range<usize>) -> Option<String> {
        let place = |at: usize| if self.places.is_empty() { Some(at) } else { self.places.get(at).copied() };
        let sent = self.sent.as_bytes().get(place(range.start)?..place(range.end)?)?;
        let sent = encoded(sent);
        (!has_dot_segment(&sent)).then_some(sent)
    }
}

/// Decodes the escape at `at`, if there is one.
fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    let &[b'%', high, low] = bytes.get(at..at + 3)? else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Encodes a visitor's text for a URL: existing escapes stay, and characters that cannot be sent are escaped.
pub(super) fn encoded(sent: &[u8]) -> String {
    let (mut out, mut at) = (String::with_capacity(sent.len()), 0);
    while let Some(byte) = sent.get(at) {
        let is_escape = escape_at(sent, at).is_some();
        let set = if is_escape { UNSENDABLE } else { ENCODED };
        out.extend(percent_encode(std::slice::from_ref(byte), set));
        at += 1;
    }
    out
}

/// Returns 1 for a `.` segment, 2 for a `..` segment, and 0 for any other. Dots may be escaped.
pub(super) fn dots(segment: &str) -> usize {
    match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
        "." => 1,
        ".." => 2,
        _ => 0,
    }
}

/// Returns whether the path has `.` or `..` segments, which browsers would resolve.
pub(super) fn has_dot_segment(path: &str) -> bool {
    let may_have = path.contains('.') || path.contains("%2e") || path.contains("%2E");
    may_have && path.split('/').any(|segment| segment.len() <= 6 && dots(segment) > 0)
}

/// Returns every decoded address that serves the file at `path` or redirects to it.
pub fn addresses(path: &str) -> Vec<String> {
    let mut addresses = vec![format!("/{path}")];
    if let Some(stem) = path.strip_suffix(".html") {
        addresses.extend([format!("/{stem}"), format!("/{stem}/")]);
    }
    if let Some(folder) = path.strip_suffix("index.html").filter(|folder| folder.is_empty() || folder.ends_with('/')) {
        addresses.extend([format!("/{folder}"), format!("/{}", folder.trim_end_matches('/'))]);
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling_and_keeps_the_other() {
        for (sent, canonical) in [
            ("/a/b", "/a/b"),
            ("/%61/%c3%a9", "/a/%C3%A9"),
            ("/%40%5B%26", "/@[&"),
            ("/a%2fb%5cc", "/a%2Fb%5Cc"),
            ("/a%", "/a%25"),
            ("/%4", "/%254"),
            ("/%00\u{7f}\\", "/%00%7F%5C"),
            ("/\u{e9}", "/%C3%A9"),
        ] {
            let path = RequestPath::new(sent);
            assert_eq!(path.canonical(), canonical, "{sent}");
            let whole = path.sent(0..canonical.len()).expect(sent);
            assert_eq!(RequestPath::new(&whole).canonical(), canonical, "{sent}");
            assert!(whole.bytes().all(|b| b.is_ascii_graphic()), "{whole}");
        }
        let path = RequestPath::new("/x%26y%2f%C3%A9z");
        assert_eq!(path.canonical(), "/x&y%2F%C3%A9z");
        assert_eq!(path.sent(1..4).as_deref(), Some("x%26y"));
        assert_eq!(path.sent(4..13).as_deref(), Some("%2f%C3%A9"));
        assert_eq!(RequestPath::new("/a/%2e%2E/b").sent(0..10), None);
        assert_eq!(RequestPath::new("/a/..b/...").sent(0..10).as_deref(), Some("/a/..b/..."));
    }
}
