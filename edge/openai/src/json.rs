//! Finds the fields of a JSON object in its text without building values.
//!
//! The other fields can then be passed on byte for byte: numbers keep their digits and fields their order.

use std::{borrow::Cow, ops::Range};

use memchr::{memchr, memchr2, memmem};

/// The deepest nesting accepted.
const DEPTH: usize = 128;

/// The text is not a JSON object, or is nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is no JSON object")]
pub struct JsonError;

/// A field of a JSON object, located in the object's text by ranges of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonField<'t> {
    /// The name as written, with its quotes.
    quoted: &'t [u8],
    /// The range of the name, the colon and the value.
    pub whole: Range<usize>,
    /// The range of the value, without the space around it.
    pub value: Range<usize>,
}

impl<'t> JsonField<'t> {
    /// Returns the decoded name, or the name as written if it cannot be decoded.
    pub fn name(&self) -> Cow<'t, [u8]> {
        let as_written = || self.quoted.strip_prefix(b"\"")?.strip_suffix(b"\"").map(Cow::Borrowed);
        self.decoded_name().or_else(as_written).unwrap_or_default()
    }

    /// Returns the decoded name, or `None` if its escapes are not valid text, such as an unpaired surrogate.
    pub fn decoded_name(&self) -> Option<Cow<'t, [u8]>> {
        decode_string(self.quoted)
    }
}

/// Iterates over the fields of the object in `text`, in order. The content of strings and numbers is not validated.
pub fn fields(text: &[u8]) -> JsonFields<'_> {
    JsonFields { text, at: 0, has_begun: false, has_ended: false }
}

/// The iterator that [`fields`] returns.
pub struct JsonFields<'t> {
    text: &'t [u8],
    at: usize,
    has_begun: bool,
    has_ended: bool,
}

impl<'t> JsonFields<'t> {
    fn parse_next(&mut self) -> Result<Option<JsonField<'t>>, JsonError> {
        let text = self.text;
        let open = skip_space(text, self.at);
        let mut at = match (self.has_begun, text.get(open)) {
            (false, Some(b'{')) | (true, Some(b',')) => skip_space(text, open + 1),
            (true, Some(b'}')) => {
                return if skip_space(text, open + 1) == text.len() { Ok(None) } else { Err(JsonError) };
            }
            _ => return Err(JsonError),
        };
        if !self.has_begun && text.get(at) == Some(&b'}') {
            return if skip_space(text, at + 1) == text.len() { Ok(None) } else { Err(JsonError) };
        }
        self.has_begun = true;
        let start = at;
        at = end_of_string(text, at)?;
        let quoted = text.get(start..at).filter(|quoted| quoted.len() <= limits::FIELD_NAME_BYTES).ok_or(JsonError)?;
        at = skip_space(text, at);
        if text.get(at) != Some(&b':') {
            return Err(JsonError);
        }
        let from = skip_space(text, at + 1);
        let to = end_of_value(text, from)?;
        self.at = to;
        Ok(Some(JsonField { quoted, whole: start..to, value: from..to }))
    }
}

impl<'t> Iterator for JsonFields<'t> {
    type Item = Result<JsonField<'t>, JsonError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.parse_next().transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Iterates over the elements of the array in `text`, which must be valid JSON. Returns `None` if it is not an array.
pub fn array_elements(text: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let inner = text.strip_prefix(b"[")?;
    let mut at = skip_space(inner, 0);
    Some(std::iter::from_fn(move || {
        let to = end_of_value(inner, at).ok()?;
        let element = inner.get(at..to)?;
        let comma = skip_space(inner, to);
        at = if inner.get(comma) == Some(&b',') { skip_space(inner, comma + 1) } else { inner.len() };
        Some(element)
    }))
}

/// Returns the decoded characters of the JSON string in `text`, empty for anything else.
pub fn decode_string_or_empty(text: &[u8]) -> Cow<'_, [u8]> {
    decode_string(text).unwrap_or_default()
}

/// Decodes the JSON string in `text`. Returns `None` if it is not a string or not valid text, or if it has escapes and
/// is longer than [`limits::DECODED_STRING_BYTES`], since decoding holds it in memory twice.
pub fn decode_string(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if !inner.contains(&b'\\') {
        return Some(Cow::Borrowed(inner));
    }
    if text.len() > limits::DECODED_STRING_BYTES {
        return None;
    }
    serde_json::from_slice::<String>(text).ok().map(|text| text.into_bytes().into())
}

/// Counts the bytes of all string values in `text`, without the fields `left_out` and their content. A string that
/// repeats the previous one of the same object is not counted. `text` may be cut off anywhere.
pub fn count_string_bytes(text: &[u8], left_out: &[&[u8]]) -> usize {
    let (mut at, mut bytes, mut last) = (0, 0, 0..0);
    while let Some(before) = memchr(b'"', text.get(at..).unwrap_or_default()) {
        let start = at + before;
        let is_in_one = || text.get(last.end..start).is_some_and(|between| memchr(b'}', between).is_none());
        let before = text.get(last.clone()).unwrap_or_default();
        let Ok(end) = end_of_string(text, start) else {
            let cut = text.get(start..).unwrap_or_default();
            return if before.starts_with(cut) && is_in_one() { bytes } else { bytes + cut.len() - 1 };
        };
        let colon = skip_space(text, end);
        if text.get(colon) != Some(&b':') {
            if text.get(start..end) != Some(before) || !is_in_one() {
                bytes += end - start - 2;
            }
            last = start..end;
            at = end;
        } else if text.get(start + 1..end - 1).is_some_and(|name| left_out.contains(&name)) {
            let Ok(end) = end_of_value(text, skip_space(text, colon + 1)) else { return bytes };
            at = end;
        } else {
            at = colon + 1;
        }
    }
    bytes
}

/// Replaces each unpaired surrogate escape in the values of `text` with U+FFFD. Returns `None` if there are none. Names
/// stay unchanged. `text` need not be JSON.
pub fn replace_lone_surrogates(text: &[u8]) -> Option<Vec<u8>> {
    let mut mended: Option<Vec<u8>> = None;
    // The end of the string that contains the last escape, and whether it is a name.
    let (mut end, mut is_name) = (0, false);
    let mut after = 0;
    for at in memmem::find_iter(text, b"\\u") {
        let slashes = text.get(after..at).unwrap_or_default().iter().rev().take_while(|byte| **byte == b'\\').count();
        // The second half of a pair, or preceded by an escaped backslash.
        if at < after || slashes % 2 == 1 {
            continue;
        }
        let Some(unit @ 0xd800..=0xdfff) = parse_utf16_escape(text, at) else { continue };
        let is_low = |unit: u16| matches!(unit, 0xdc00..=0xdfff);
        if !is_low(unit) && self::parse_utf16_escape(text, at + 6).is_some_and(is_low) {
            after = at + 12;
            continue;
        }
        if at >= end {
            // `at` is inside a string, so scan as if the string began here.
            end = end_of_started_string(text, at).unwrap_or(text.len());
            is_name = text.get(skip_space(text, end)) == Some(&b':');
        }
        if !is_name {
            let mended = mended.get_or_insert_with(|| text.to_vec());
            if let Some(escape) = mended.get_mut(at..at + 6) {
                escape.copy_from_slice(b"\\ufffd");
            }
        }
    }
    mended
}

/// Parses the UTF-16 code unit whose escape begins at `at`.
fn parse_utf16_escape(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Counts the bytes scanned, to test that they are few. Tests of other crates read it too, so it is in every debug build.
#[cfg(debug_assertions)]
pub mod work {
    use std::cell::Cell;

    thread_local! {
        static DONE: Cell<u64> = const { Cell::new(0) };
    }

    /// Returns the bytes that this thread has scanned.
    pub fn done() -> u64 {
        DONE.get()
    }

    /// Adds scanned bytes.
    pub fn add(bytes: usize) {
        DONE.set(DONE.get() + bytes as u64);
    }
}

fn skip_space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Returns the end of the string that begins at `at`.
fn end_of_string(text: &[u8], at: usize) -> Result<usize, JsonError> {
    if text.get(at) != Some(&b'"') {
        return Err(JsonError);
    }
    end_of_started_string(text, at + 1)
}

/// Returns the end of the string of which a character or the closing quote is at `at`.
fn end_of_started_string(text: &[u8], mut at: usize) -> Result<usize, JsonError> {
    loop {
        #[cfg(debug_assertions)]
        let start = at;
        let found = memchr2(b'"', b'\\', text.get(at..).ok_or(JsonError)?).ok_or(JsonError)?;
        at += found;
        #[cfg(debug_assertions)]
        work::add(at - start + 1);
        if text[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

fn end_of_value(text: &[u8], at: usize) -> Result<usize, JsonError> {
    match text.get(at).ok_or(JsonError)? {
        b'"' => end_of_string(text, at),
        b'{' | b'[' => end_of_nested(text, at),
        b',' | b'}' | b']' | b':' => Err(JsonError),
        _ => {
            let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b':' | b'"' | b' ' | b'\t' | b'\n' | b'\r');
            Ok(text[at..].iter().position(ends).map_or(text.len(), |len| at + len))
        }
    }
}

fn end_of_nested(text: &[u8], mut at: usize) -> Result<usize, JsonError> {
    let mut depth = 0;
    loop {
        match text.get(at).ok_or(JsonError)? {
            b'"' => {
                at = end_of_string(text, at)?;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > DEPTH {
                    return Err(JsonError);
                }
            }
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        #[cfg(debug_assertions)]
        work::add(1);
        at += 1;
        if depth == 0 {
            return Ok(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, JsonError> {
        fields(text.as_bytes())
            .map(|field| {
                let field = field?;
                let name = String::from_utf8(field.name().into_owned()).unwrap();
                Ok((name, text[field.value].to_owned()))
            })
            .collect()
    }

    #[test]
    fn fields_are_found_with_their_ranges() {
        let text = r#" { "a" : 1.50, "b":{"a":[1,"}"]} ,"c\"\\":"x\\","mod\u0065l": null } "#;
        let found = read(text).unwrap();
        let expected = [("a", "1.50"), ("b", r#"{"a":[1,"}"]}"#), ("c\"\\", r#""x\\""#), ("model", "null")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(read("{}").unwrap(), []);
        assert_eq!(read(" { } ").unwrap(), []);
    }

    #[test]
    fn text_that_is_no_object_is_an_error() {
        for text in
            ["", " ", "[]", "1", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{\"a\":\"x}", "{} x", "{a:1}"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&deep(DEPTH)).is_ok());
        assert!(read(&deep(DEPTH + 1)).is_err());
    }

    #[test]
    fn elements_are_separated() {
        let read =
            |text: &'static str| array_elements(text.as_bytes()).map(|e| e.map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert_eq!(read("[]").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(read(r#"[ {"a":","} , 2,"]"]"#).unwrap(), [&br#"{"a":","}"#[..], b"2", b"\"]\""]);
        assert!(read("{}").is_none());
    }

    #[test]
    fn half_of_a_pair_of_surrogates_is_replaced_in_values() {
        let mended = |text: &str| replace_lone_surrogates(text.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        for (text, expected) in [
            (r#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#),
            (r#"["\uD83D\uD83D\uDE00\ude00 \uDfFf"]"#, r#"["\ufffd\uD83D\uDE00\ufffd \ufffd"]"#),
            (r#"{"a\ud83d" : "\\\ud83d","b":"\ud83d"}"#, r#"{"a\ud83d" : "\\\ufffd","b":"\ufffd"}"#),
            (r#"["\ud83d\u0041","\ud83d\n","\ud83dx"#, r#"["\ufffd\u0041","\ufffd\n","\ufffdx"#),
        ] {
            assert_eq!(mended(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            r#""\u""#,
            r#""\ud83""#,
            r#""\\ud83d""#,
            r#""\ud83d\ude00""#,
            r#"{"\udc00":1}"#,
            r#"{"a\ud83d\ud83d":"\ud83d\ude00"}"#,
        ] {
            assert_eq!(mended(text), None, "{text}");
        }
        // Finding the end of the string takes no longer with many escapes.
        let many = format!("\"{}\"", "\\ud83d".repeat(100_000));
        assert_eq!(mended(&many).unwrap(), many.replace("d83d", "fffd"));
    }

    #[test]
    fn strings_are_counted_where_they_are_values() {
        let count = |text: &str| count_string_bytes(text.as_bytes(), &[b"left", b"out"]);
        for (text, bytes) in [
            ("", 0),
            (r#"[{"a":"xyz","left":"xx","b" : ["x",1,{"c":"\""}]},"out"]"#, 9),
            (r#"{"out" : {"a":"x","b":["x"]},"a":null,"b":"x"}"#, 1),
            // The same words under two names.
            (r#"[{"a":"xyz","b":null,"c":"xyz","d":[{"e":"xyz"}]}]"#, 3),
            (r#"[{"a":"xyz"},{"a":"xyz"}]"#, 6),
            (r#"{"a":"xyz","b":"x","c":"xyz"}"#, 7),
            (r#"{"a":"xyz","b":"xy"#, 3),
            // Cut off in a value, in a name, and in a field that is left out.
            (r#"{"a":"xyz"#, 3),
            (r#"{"a":"xyz\"#, 4),
            (r#"{"a":"xyz","left":["x"#, 3),
            (r#"{"a":"xyz","left""#, 7),
        ] {
            assert_eq!(count(text), bytes, "{text}");
        }
        assert_eq!(count(&format!(r#"{{"a":"x","out":{}"#, "[".repeat(DEPTH + 1))), 1);
    }
}
