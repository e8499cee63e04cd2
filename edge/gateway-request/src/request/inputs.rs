//! Plain text inputs: the `prompt` of a legacy completion, and the `input` of embeddings.

use openai::json;

use super::super::error::ApiError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextInputs<'t> {
    pub(super) count: u64,
    /// The only text, if it was sent as an array.
    pub(super) single: Option<&'t [u8]>,
}

impl<'t> TextInputs<'t> {
    /// Parses the field `name`: a text, an array of texts, the tokens of a text, or an array of those.
    pub(super) fn read(name: &'static str, value: Option<&'t [u8]>, most: u64) -> Result<Self, ApiError> {
        let value = value.filter(|value| *value != b"null").ok_or_else(|| ApiError::missing_parameter(name))?;
        let wrong_type =
            || ApiError::invalid_type(name, "a string, an array of strings, an array of tokens, or an array of those");
        let empty = || ApiError::invalid_value(name, "it is empty");
        if value.starts_with(b"\"") {
            return if value == b"\"\"" { Err(empty()) } else { Ok(Self { count: 1, single: None }) };
        }
        let mut elements = json::array_elements(value).ok_or_else(wrong_type)?;
        let first = elements.next().ok_or_else(empty)?;
        if is_token(first) {
            return if elements.all(is_token) { Ok(Self { count: 1, single: None }) } else { Err(wrong_type()) };
        }
        let is_like_first = |element: &[u8]| match element.first() {
            Some(b'"') => first.starts_with(b"\""),
            Some(b'[') => first.starts_with(b"[") && is_tokens(element),
            _ => false,
        };
        let mut count = 0;
        for element in [first].into_iter().chain(elements) {
            if !is_like_first(element) {
                return Err(wrong_type());
            }
            if element == b"\"\"" {
                return Err(ApiError::invalid_value(format!("{name}[{count}]"), "it is empty"));
            }
            count += 1;
        }
        if count > most {
            let rule = format!("there are {count}, and at most {most} are taken");
            return Err(ApiError::invalid_value(name, &rule).with_maximum(most));
        }
        Ok(Self { count, single: (count == 1).then_some(first) })
    }
}

fn is_tokens(array: &[u8]) -> bool {
    let mut tokens = json::array_elements(array).into_iter().flatten().peekable();
    tokens.peek().is_some() && tokens.all(is_token)
}

fn is_token(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|digits| digits.parse::<u32>().is_ok() && !digits.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_tokens_are_counted() {
        let read =
            |value: &'static str| TextInputs::read("input", Some(value.as_bytes()), 3).map(|inputs| inputs.count);
        for (value, count) in
            [(r#""x""#, 1), (r#"["x"]"#, 1), (r#"["x" , "y","]"]"#, 3), ("[1,2,3,4,5]", 1), ("[[1,2],[3],[4]]", 3)]
        {
            assert_eq!(read(value).unwrap(), count, "{value}");
        }
        for value in [
            "null",
            "7",
            "true",
            "{}",
            "[]",
            "\"\"",
            r#"["x",""]"#,
            r#"["x",1]"#,
            r#"[1,"x"]"#,
            "[1,-1]",
            "[1.5]",
            "[[]]",
            "[[1],[]]",
            r#"[["x"]]"#,
            r#"[{"type":"text"}]"#,
            "[[1],2]",
            r#"["a","b","c","d"]"#,
            "[99999999999]",
        ] {
            assert!(read(value).is_err(), "{value}");
        }
        let single = TextInputs::read("input", Some(br#"["x"]"#), 3).unwrap().single;
        assert_eq!(single, Some(&br#""x""#[..]));
    }
}
