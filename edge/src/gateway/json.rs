//! Reading JSON without building it: where the fields of an object stand in its text. Everything else of the text is
//! passed on byte by byte, so that numbers keep their digits and fields their order.

use std::{borrow::Cow, ops::Range};

use memchr::memchr2;

/// Deepest nesting that is read.
const DEPTH: usize = 128;

/// The text is not JSON, or nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an object in JSON")]
pub(super) struct Malformed;

/// A field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field<'t> {
    /// Its name as it stands there, without the quotes.
    name: &'t [u8],
    /// Name, colon and value.
    pub(super) whole: Range<usize>,
    /// Its value.
    pub(super) value: Range<usize>,
}

impl<'t> Field<'t> {
    /// Its name. A name that is written with escapes is the same name.
    pub(super) fn name(&self) -> Cow<'t, [u8]> {
        if !self.name.contains(&b'\\') {
            return Cow::Borrowed(self.name);
        }
        let quoted = [b"\"", self.name, b"\""].concat();
        serde_json::from_slice::<String>(&quoted).map_or(Cow::Borrowed(self.name), |name| name.into_bytes().into())
    }
}

/// The fields of the object that `text` is, in their order. What stands in strings and numbers is not judged.
pub(super) fn fields(text: &[u8]) -> Fields<'_> {
    Fields { text, at: 0, begun: false, ended: false }
}

/// See [`fields`].
pub(super) struct Fields<'t> {
    text: &'t [u8],
    at: usize,
    begun: bool,
    ended: bool,
}

impl<'t> Fields<'t> {
    fn step(&mut self) -> Result<Option<Field<'t>>, Malformed> {
        let text = self.text;
        let open = space(text, self.at);
        let mut at = match (self.begun, text.get(open)) {
            (false, Some(b'{')) | (true, Some(b',')) => space(text, open + 1),
            (true, Some(b'}')) => return if space(text, open + 1) == text.len() { Ok(None) } else { Err(Malformed) },
            _ => return Err(Malformed),
        };
        if !self.begun && text.get(at) == Some(&b'}') {
            return if space(text, at + 1) == text.len() { Ok(None) } else { Err(Malformed) };
        }
        self.begun = true;
        let start = at;
        at = string(text, at)?;
        let name = text.get(start + 1..at - 1).ok_or(Malformed)?;
        at = space(text, at);
        if text.get(at) != Some(&b':') {
            return Err(Malformed);
        }
        let from = space(text, at + 1);
        let to = value(text, from)?;
        self.at = to;
        Ok(Some(Field { name, whole: start..to, value: from..to }))
    }
}

impl<'t> Iterator for Fields<'t> {
    type Item = Result<Field<'t>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.step().transpose();
        self.ended = !matches!(step, Some(Ok(_)));
        step
    }
}

/// The elements of the array that `text` is; none of what is not an array. For text that is known to be JSON.
pub(super) fn elements(text: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let inner = text.strip_prefix(b"[")?;
    let mut at = space(inner, 0);
    Some(std::iter::from_fn(move || {
        let to = value(inner, at).ok()?;
        let element = inner.get(at..to)?;
        let comma = space(inner, to);
        at = if inner.get(comma) == Some(&b',') { space(inner, comma + 1) } else { inner.len() };
        Some(element)
    }))
}

fn space(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Where the string ends that begins at `at`.
fn string(text: &[u8], at: usize) -> Result<usize, Malformed> {
    if text.get(at) != Some(&b'"') {
        return Err(Malformed);
    }
    let mut at = at + 1;
    loop {
        let found = memchr2(b'"', b'\\', text.get(at..).ok_or(Malformed)?).ok_or(Malformed)?;
        at += found;
        if text[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

/// Where the value ends that begins at `at`.
fn value(text: &[u8], at: usize) -> Result<usize, Malformed> {
    match text.get(at).ok_or(Malformed)? {
        b'"' => string(text, at),
        b'{' | b'[' => nested(text, at),
        b',' | b'}' | b']' | b':' => Err(Malformed),
        _ => {
            let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b':' | b'"' | b' ' | b'\t' | b'\n' | b'\r');
            Ok(text[at..].iter().position(ends).map_or(text.len(), |len| at + len))
        }
    }
}

fn nested(text: &[u8], mut at: usize) -> Result<usize, Malformed> {
    let mut depth = 0;
    loop {
        match text.get(at).ok_or(Malformed)? {
            b'"' => {
                at = string(text, at)?;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > DEPTH {
                    return Err(Malformed);
                }
            }
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Ok(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, Malformed> {
        fields(text.as_bytes())
            .map(|field| {
                let field = field?;
                let name = String::from_utf8(field.name().into_owned()).unwrap();
                Ok((name, text[field.value].to_owned()))
            })
            .collect()
    }

    #[test]
    fn fields_are_found_where_they_stand() {
        let text = r#" { "a" : 1.50, "b":{"a":[1,"}"]} ,"c\"\\":"x\\","mod\u0065l": null } "#;
        let found = read(text).unwrap();
        let expected = [("a", "1.50"), ("b", r#"{"a":[1,"}"]}"#), ("c\"\\", r#""x\\""#), ("model", "null")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(read("{}").unwrap(), []);
        assert_eq!(read(" { } ").unwrap(), []);
    }

    #[test]
    fn what_is_no_object_is_refused() {
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
    fn elements_are_told_apart() {
        let read = |text: &'static str| elements(text.as_bytes()).map(|e| e.map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert_eq!(read("[]").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(read(r#"[ {"a":","} , 2,"]"]"#).unwrap(), [&br#"{"a":","}"#[..], b"2", b"\"]\""]);
        assert!(read("{}").is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            fields(&text).for_each(drop);
            elements(&text).into_iter().flatten().for_each(drop);
        }

        #[test]
        fn agrees_with_serde(map: std::collections::BTreeMap<String, Vec<Option<f64>>>) {
            let text = serde_json::to_string(&map).unwrap();
            let found: Vec<_> = read(&text).unwrap();
            assert_eq!(found.len(), map.len());
            for ((name, value), (wanted, values)) in found.iter().zip(&map) {
                assert_eq!(name, wanted);
                assert_eq!(value, &serde_json::to_string(values).unwrap());
            }
        }
    }
}
