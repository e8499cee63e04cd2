//! Upper bounds of the tokens in a prompt.
//!
//! The models' tokenizers never make two tokens of one byte, and hardly more can be said of all text: for digits,
//! hexadecimal numbers and rare scripts, some make one token per byte. So the bound is the body's length. Its JSON
//! syntax makes up for what a chat template adds around each message, and escapes are longer than their characters. The
//! gateway adds to the bound where a prompt can be longer than its JSON: the template's own words, JSON that servers
//! parse and reserialize ([`surplus`]), images, and the few characters that Unicode's composed form decomposes. The
//! excess is released when the answer ends.

use openai::json;

use super::content::RequestContent;

/// Returns the most tokens in the prompt of a request with this body and content.
pub(super) fn max_tokens(body: &[u8], found: &RequestContent) -> u64 {
    let text = body.len() as u64 + decomposed_bytes(body);
    let images = found.images().saturating_mul(limits::IMAGE_TOKENS);
    let tools = if found.tools > 0 { limits::TOOLS_TOKENS } else { 0 };
    text + limits::TEMPLATE_TOKENS + tools + found.surplus + images
}

/// Returns how many bytes a text can grow when normalized to Unicode NFC, as some tokenizers do.
fn decomposed_bytes(text: &[u8]) -> u64 {
    if text.is_ascii() {
        return 0;
    }
    // Escaped characters have enough bytes already.
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

/// Returns the tokens that a JSON `value` can have beyond its bytes when a server parses and reserializes it, as
/// templates do with tools and tool calls: each member on its own line, indented by four spaces per level, or between
/// tags; non-ASCII as escapes; numbers in full; and all of that also for JSON inside strings.
pub(super) fn surplus(value: &[u8]) -> u64 {
    if value.starts_with(b"\"") {
        return surplus_in_string(value);
    }
    #[cfg(debug_assertions)]
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

/// Returns the [`surplus`] of the content of the JSON string `text`, if that may be JSON.
fn surplus_in_string(text: &[u8]) -> u64 {
    let inner = json::decode_string_or_empty(text);
    let is_text = !inner.is_empty() || text == b"\"\"";
    match inner.trim_ascii_start().first() {
        Some(b'{' | b'[') => surplus(&inner),
        // An unpaired surrogate, which some parsers accept, or too long to inspect.
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
        let of = |body: &str| max_tokens(body.as_bytes(), &RequestContent::default()) - limits::TEMPLATE_TOKENS;
        for text in ["0123456789", "deadbeef00ff", "the quick brown fox", "漢字かな交じり文", "🦀🏴‍☠️", "\\ud83e\\udd80"]
        {
            assert_eq!(of(text), text.len() as u64, "{text}");
        }
        // Characters that normalization decomposes, by the resulting bytes.
        assert_eq!((of("\u{1d15e}"), of("\u{958}"), of("\u{fb2c}")), (12, 6, 6));
    }

    #[test]
    fn json_counts_as_it_is_printed() {
        let of = |value: &str| surplus(value.as_bytes());
        assert_eq!(of("[]"), limits::MEMBER_TOKENS + 1 + 1);
        // Ten levels, and a hundred members, each on a line indented by forty spaces.
        let deep = format!("{}1{}{}", "[".repeat(10), ",1".repeat(100), "]".repeat(10));
        assert!(of(&deep) > 100 * 10, "{}", of(&deep));
        assert_eq!(of(r#""a [[,,{{\"[[""#), 0, "what is said is not printed otherwise");
        assert_eq!(of("{\"é\":1}"), of("{\"e\":1}") + 4);
        assert_eq!(of("[1e15,true]"), of("[1,true]") + limits::NUMBER_TOKENS);
        // A string that contains JSON, however it is escaped.
        let nested = of("[1,2]");
        assert_eq!((of(r#""[1,2]""#), of(r#"" \n\u005b1,2]""#)), (nested, nested));
        assert_eq!(of(r#"{"a":"[1,2]"}"#), of("{}") + nested);
        assert_eq!(of(r#"{"a":"{\"b\":\"[1,2]\"}"}"#), 2 * of("{}") + nested);
        assert!(of(r#""[1,2,\ud800]""#) >= 3 * limits::MEMBER_TOKENS);
    }
}
