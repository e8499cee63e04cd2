//! Request paths: decoded once, and encoded again for redirects.

use std::borrow::Cow;

use http::{HeaderValue, Uri};
use limits::TARGET_BYTES;
use packs::rules::pattern::ENCODED;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathError {
    Malformed,
    /// The path is longer than any file name can be.
    TooLong,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecodedPath<'r> {
    /// The decoded path. A segment that no file name can contain stays as sent.
    pub(crate) decoded: Cow<'r, str>,
    pub(crate) sent: &'r str,
    /// Whether a file can have this path: no segment is then `.` or `..`, and no character is a control or a backslash.
    pub(crate) is_nameable: bool,
}

pub(crate) fn decode(uri: &Uri) -> Result<DecodedPath<'_>, PathError> {
    let sent = uri.path();
    if sent.len() + uri.query().map_or(0, str::len) > TARGET_BYTES {
        return Err(PathError::TooLong);
    }
    if !sent.starts_with('/') {
        return Err(PathError::Malformed);
    }
    // Every request passes here: ordinary paths are scanned, not copied.
    let is_plain = sent.bytes().all(is_plain) && !(sent.contains("/.") && sent.split('/').any(is_dot_segment));
    if is_plain {
        return Ok(DecodedPath { decoded: Cow::Borrowed(sent), sent, is_nameable: true });
    }
    let (decoded, is_nameable) = decode_segments(sent);
    Ok(DecodedPath { decoded: Cow::Owned(decoded), sent, is_nameable })
}

/// Returns the decoded path, if a file can have it.
pub(crate) fn decode_name(encoded: &str) -> Option<String> {
    let (decoded, is_nameable) = decode_segments(encoded);
    is_nameable.then_some(decoded)
}

/// Decodes the segments that are valid names, and returns whether all of them are.
fn decode_segments(encoded: &str) -> (String, bool) {
    let mut decoded = String::with_capacity(encoded.len());
    let mut are_names = true;
    for (at, segment) in encoded.split('/').enumerate() {
        if at > 0 {
            decoded.push('/');
        }
        if let Some(name) = decode_segment(segment) {
            decoded.push_str(&name);
        } else {
            are_names = false;
            decoded.push_str(segment);
        }
    }
    (decoded, are_names)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'%' && byte != b'\\'
}

fn is_dot_segment(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Decodes a segment; `None` for bad percent escapes, controls, dot segments, encoded slashes and invalid UTF-8.
fn decode_segment(segment: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        decoded.push(digit()? << 4 | digit()?);
    }
    let decoded = String::from_utf8(decoded).ok()?;
    // An encoded slash would be a separator here, but not for a check that ran before decoding.
    let is_name = !is_dot_segment(&decoded) && !decoded.chars().any(|c| c.is_control() || matches!(c, '\\' | '/'));
    is_name.then_some(decoded)
}

pub(crate) fn encode(path: &str) -> Cow<'_, str> {
    utf8_percent_encode(path, ENCODED).into()
}

/// Appends the request's query to `location`, unless it has its own. Percent-encodes what no header can hold.
pub(crate) fn with_query(location: &str, query: Option<&str>) -> Option<HeaderValue> {
    const UNSENDABLE: &AsciiSet = &CONTROLS.add(b' ');
    let (before, fragment) = location.find('#').map_or((location, ""), |at| location.split_at(at));
    let encoded = |text| utf8_percent_encode(text, UNSENDABLE);
    let value = match query {
        Some(query) if !before.contains('?') => format!("{}?{}{}", encoded(before), encoded(query), encoded(fragment)),
        _ => encoded(location).to_string(),
    };
    HeaderValue::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once() {
        let cases = [
            ("/", "/"),
            ("/a/b.css?x=%zz", "/a/b.css"),
            ("/a%20b", "/a b"),
            ("/%C3%A9t%c3%a9", "/été"),
            ("/%252e%252e/x", "/%2e%2e/x"),
            ("/..a/.b/c..", "/..a/.b/c.."),
            ("//x", "//x"),
            ("/.well-known/x", "/.well-known/x"),
        ];
        for (target, expected) in cases {
            let uri: Uri = target.parse().unwrap();
            let path = decode(&uri).unwrap();
            assert_eq!((&*path.decoded, path.is_nameable), (expected, true), "{target}");
        }
    }

    #[test]
    fn a_segment_that_no_file_can_have_stays_as_it_was_sent() {
        let cases = [
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz", "/%zz"),
            ("/%+1", "/%+1"),
            ("/%00", "/%00"),
            ("/a%0d%0ab", "/a%0d%0ab"),
            ("/%7f", "/%7f"),
            ("/%c2%85", "/%c2%85"),
            ("/%C3%A9/a%2fb", "/é/a%2fb"),
            ("/a%2Fb/%20", "/a%2Fb/ "),
            ("/a%5cb", "/a%5cb"),
            ("/a\\b", "/a\\b"),
            ("/../x", "/../x"),
            ("/a/..", "/a/.."),
            ("/a/./b", "/a/./b"),
            ("/%2e%2e/x", "/%2e%2e/x"),
            ("/%2E./x", "/%2E./x"),
            ("/.%2e", "/.%2e"),
            ("/..%2f..%2fx", "/..%2f..%2fx"),
            ("/%ff", "/%ff"),
            ("/%c0%af", "/%c0%af"),
        ];
        for (target, expected) in cases {
            let uri: Uri = target.parse().unwrap();
            let path = decode(&uri).unwrap();
            assert_eq!((&*path.decoded, path.is_nameable, path.sent), (expected, false, target), "{target}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        assert_eq!(decode(&"*".parse().unwrap()), Err(PathError::Malformed));
        let long: Uri = format!("/{}", "a".repeat(TARGET_BYTES)).parse().unwrap();
        assert_eq!(decode(&long), Err(PathError::TooLong));
    }

    #[test]
    fn locations_can_be_sent_and_keep_the_query() {
        assert_eq!(with_query("/x", Some("a=1")).unwrap(), "/x?a=1");
        assert_eq!(with_query("/x?b=2", Some("a=1")).unwrap(), "/x?b=2");
        assert_eq!(with_query("/x#top", Some("a=1")).unwrap(), "/x?a=1#top");
        assert_eq!(with_query("/é x\r\n", None).unwrap(), "/%C3%A9%20x%0D%0A");
        assert_eq!(encode("/a b/é%?#"), "/a%20b/%C3%A9%25%3F%23");
    }
}
