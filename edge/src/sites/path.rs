//! The path of a request: decoded once, strictly, and encoded again for redirects.

use std::borrow::Cow;

use http::{HeaderValue, Uri};
use packs::rules::pattern::ENCODED;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::limits::TARGET_BYTES;

/// Why a path names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadPath {
    /// Bad percent signs, control characters, dot segments, slashes in disguise, not UTF-8.
    Malformed,
    /// Longer than any file's name can be.
    TooLong,
}

/// The decoded path, with its leading slash. No segment of it is `.` or `..`, no character a control or a backslash.
pub(crate) fn decode(uri: &Uri) -> Result<Cow<'_, str>, BadPath> {
    let raw = uri.path();
    if raw.len() + uri.query().map_or(0, str::len) > TARGET_BYTES {
        return Err(BadPath::TooLong);
    }
    // Every request comes by here: ordinary paths are only looked at, never copied.
    let decoded = if raw.bytes().all(is_plain) { Cow::Borrowed(raw) } else { Cow::Owned(percent_decode(raw)?) };
    let has_dot_segment = decoded.contains("/.") && decoded.split('/').any(|segment| matches!(segment, "." | ".."));
    if !decoded.starts_with('/') || has_dot_segment {
        return Err(BadPath::Malformed);
    }
    Ok(decoded)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'%' && byte != b'\\'
}

fn percent_decode(raw: &str) -> Result<String, BadPath> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(BadPath::Malformed) };
        let byte = high << 4 | low;
        // An encoded slash would be a separator here and none for whoever checked the path before.
        if byte == b'/' {
            return Err(BadPath::Malformed);
        }
        decoded.push(byte);
    }
    let decoded = String::from_utf8(decoded).map_err(|_| BadPath::Malformed)?;
    if decoded.chars().any(|c| c.is_control() || c == '\\') { Err(BadPath::Malformed) } else { Ok(decoded) }
}

/// A decoded path as it stands in a URL.
pub(crate) fn encode(path: &str) -> Cow<'_, str> {
    utf8_percent_encode(path, ENCODED).into()
}

/// `location` with the request's query, unless it has one of its own; what no header can hold is encoded.
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
    fn paths_are_decoded_once_and_strictly() {
        let cases = [
            ("/", Ok("/")),
            ("/a/b.css?x=%zz", Ok("/a/b.css")),
            ("/a%20b", Ok("/a b")),
            ("/%C3%A9t%c3%a9", Ok("/été")),
            ("/%252e%252e/x", Ok("/%2e%2e/x")),
            ("/..a/.b/c..", Ok("/..a/.b/c..")),
            ("//x", Ok("//x")),
            ("/.well-known/x", Ok("/.well-known/x")),
            ("/%", Err(BadPath::Malformed)),
            ("/%4", Err(BadPath::Malformed)),
            ("/%zz", Err(BadPath::Malformed)),
            ("/%+1", Err(BadPath::Malformed)),
            ("/%00", Err(BadPath::Malformed)),
            ("/a%0d%0ab", Err(BadPath::Malformed)),
            ("/%7f", Err(BadPath::Malformed)),
            ("/%c2%85", Err(BadPath::Malformed)),
            ("/a%2fb", Err(BadPath::Malformed)),
            ("/a%2Fb", Err(BadPath::Malformed)),
            ("/a%5cb", Err(BadPath::Malformed)),
            ("/a\\b", Err(BadPath::Malformed)),
            ("/../x", Err(BadPath::Malformed)),
            ("/a/..", Err(BadPath::Malformed)),
            ("/a/./b", Err(BadPath::Malformed)),
            ("/%2e%2e/x", Err(BadPath::Malformed)),
            ("/%2E./x", Err(BadPath::Malformed)),
            ("/.%2e", Err(BadPath::Malformed)),
            ("/%ff", Err(BadPath::Malformed)),
            ("/%c0%af", Err(BadPath::Malformed)),
            ("*", Err(BadPath::Malformed)),
        ];
        for (target, expected) in cases {
            let uri: Uri = target.parse().unwrap();
            assert_eq!(decode(&uri).as_deref(), expected.as_deref(), "{target}");
        }
        let long: Uri = format!("/{}", "a".repeat(TARGET_BYTES)).parse().unwrap();
        assert_eq!(decode(&long), Err(BadPath::TooLong));
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
