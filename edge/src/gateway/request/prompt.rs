//! The most tokens that a prompt can have.
//!
//! No tokenizer of the models makes two tokens of one byte, and hardly more can be said of all text: of digits,
//! hexadecimal numbers and rare scripts some make one token a byte. So the body's bytes are the bound. Its JSON pays
//! for what a chat template puts around each message, its escapes are longer than what they stand for, and what the
//! gateway adds to the bound is where a prompt can be longer than its JSON: the template's own words, JSON that servers
//! read and print anew ([`surplus`]), images, and the few characters that Unicode's composed form takes apart. What is
//! too much is given back when the answer ends.

use super::{content::Found, json};
use crate::limits;

/// The most tokens that the prompt of a request with this body can have, in which this was found.
pub(super) fn max_tokens(body: &[u8], found: &Found) -> u64 {
    let text = body.len() as u64 + decomposed_bytes(body);
    let images = found.images().saturating_mul(limits::IMAGE_TOKENS);
    let tools = if found.tools > 0 { limits::TOOLS_TOKENS } else { 0 };
    text + limits::TEMPLATE_TOKENS + tools + found.surplus + images
}

/// The bytes by which the characters in a text can grow when it is normalized to Unicode's form NFC, as some tokenizers
/// do.
fn decomposed_bytes(text: &[u8]) -> u64 {
    if text.is_ascii() {
        return 0;
    }
    // Those written as escapes have enough bytes for what they become.
    let grows = |letter: char| match letter {
        '\u{344}'
        | '\u{958}'..='\u{9df}'
        | '\u{a33}'..='\u{b5d}'
        | '\u{f43}'..='\u{fb9}'
        | '\u{2adc}'
        | '\u{fa6c}'..='\u{fad7}'
        | '\u{fb1d}'..='\u{fb4e}' => 3,
        '\u{1d15e}'..='\u{1d1c0}' => 8,
        _ => 0,
    };
    std::str::from_utf8(text).unwrap_or_default().chars().map(grows).sum()
}

/// The tokens that the JSON `value` can have beyond its bytes where a server reads it and prints it anew, as templates do with
/// tools and their calls: each member on a line of its own, indented by four spaces a level, or between tags of its own,
/// what is not ASCII as escapes, numbers in full, and the same with what a string holds if that is JSON.
pub(super) fn surplus(value: &[u8]) -> u64 {
    if value.starts_with(b"\"") {
        return surplus_in_string(value);
    }
    #[cfg(test)]
    json::work::add(value.len());
    let (mut surplus, mut depth) = (0, 0_u64);
    let (mut string, mut is_escaped, mut last) = (None, false, b' ');
    for (at, &byte) in value.iter().enumerate() {
        match (string, byte) {
            (_, 0x80..) => surplus += 2,
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(start), b'"') => {
                string = None;
                surplus += surplus_in_string(value.get(start..=at).unwrap_or_default());
            }
            (None, b'"') => string = Some(at),
            (None, b'{' | b'[') => {
                depth += 1;
                surplus += limits::MEMBER_TOKENS + depth;
            }
            (None, b',') => surplus += limits::MEMBER_TOKENS + depth,
            (None, b'}' | b']') => {
                depth = depth.saturating_sub(1);
                surplus += 1 + depth;
            }
            (None, b'e' | b'E') if last.is_ascii_digit() => surplus += limits::NUMBER_TOKENS,
            _ => {}
        }
        last = byte;
    }
    surplus
}

/// The [`surplus`] of what the JSON string `text` holds, if that may be JSON.
fn surplus_in_string(text: &[u8]) -> u64 {
    let inner = json::string(text);
    let is_text = !inner.is_empty() || text == b"\"\"";
    match inner.trim_ascii_start().first() {
        Some(b'{' | b'[') => surplus(&inner),
        // Half of a pair of surrogates, which not every parser minds; or too long to be looked at.
        _ if !is_text => {
            let members = text.iter().filter(|byte| matches!(byte, b'{' | b'[' | b',')).count();
            let depth = if text.len() > limits::DECODED_STRING_BYTES { limits::UNSEEN_DEPTH } else { 0 };
            (limits::MEMBER_TOKENS + depth).saturating_mul(members as u64)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_a_token_a_byte_at_most() {
        let of = |body: &str| max_tokens(body.as_bytes(), &Found::default()) - limits::TEMPLATE_TOKENS;
        for text in ["0123456789", "deadbeef00ff", "the quick brown fox", "漢字かな交じり文", "🦀🏴‍☠️", "\\ud83e\\udd80"]
        {
            assert_eq!(of(text), text.len() as u64, "{text}");
        }
        // What normalization takes apart, by the bytes it becomes.
        assert_eq!((of("\u{1d15e}"), of("\u{958}"), of("\u{fb2c}")), (12, 6, 6));
    }

    #[test]
    fn json_counts_as_it_is_printed() {
        let of = |value: &str| surplus(value.as_bytes());
        assert_eq!(of("[]"), limits::MEMBER_TOKENS + 1 + 1);
        // Ten levels, and a hundred members each of which stands on a line of its own behind forty spaces.
        let deep = format!("{}1{}{}", "[".repeat(10), ",1".repeat(100), "]".repeat(10));
        assert!(of(&deep) > 100 * 10, "{}", of(&deep));
        assert_eq!(of(r#""a [[,,{{\"[[""#), 0, "what is said is not printed otherwise");
        assert_eq!(of("{\"é\":1}"), of("{\"e\":1}") + 4);
        assert_eq!(of("[1e15,true]"), of("[1,true]") + limits::NUMBER_TOKENS);
        // A string with JSON in it, however that is escaped.
        let nested = of("[1,2]");
        assert_eq!((of(r#""[1,2]""#), of(r#"" \n\u005b1,2]""#)), (nested, nested));
        assert_eq!(of(r#"{"a":"[1,2]"}"#), of("{}") + nested);
        assert_eq!(of(r#"{"a":"{\"b\":\"[1,2]\"}"}"#), 2 * of("{}") + nested);
        assert!(of(r#""[1,2,\ud800]""#) >= 3 * limits::MEMBER_TOKENS);
    }
}
