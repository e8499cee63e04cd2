//! The most tokens that a prompt can have.
//!
//! No tokenizer of the models makes two tokens of one byte, and hardly more can be said of all text: of digits,
//! hexadecimal numbers and rare scripts some make one token a byte. So the body's bytes are the bound. Its JSON pays
//! for what a chat template puts around each message, its escapes are longer than what they stand for, and what the
//! gateway adds to the bound is where a prompt can be longer than its JSON: the template's own words, tools that are
//! printed with indentation, images, and the few characters that Unicode's composed form takes apart. What is too much
//! is given back when the answer ends.

use crate::limits;

/// The most tokens that the prompt of a request with this body, these tools and so many images can have.
pub(super) fn max_tokens(body: &[u8], tools: Option<&[u8]>, images: u64) -> u64 {
    let text = body.len() as u64 + decomposed_bytes(body);
    let images = images.saturating_mul(limits::IMAGE_TOKENS);
    let tools = tools.filter(|tools| *tools != b"null").map_or(0, surplus_of_tools);
    text + limits::TEMPLATE_TOKENS + tools + images
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

/// The tokens that the tools can have beyond the bytes of their JSON: templates print each member on a line of its own,
/// indented by four spaces a level, or between tags of its own, and what is not ASCII as escapes.
fn surplus_of_tools(tools: &[u8]) -> u64 {
    let (mut surplus, mut depth, mut is_string, mut is_escaped) = (limits::TOOLS_TOKENS, 0_u64, false, false);
    for byte in tools {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            0x80.. => surplus += 2,
            _ if is_string => {}
            b'{' | b'[' => {
                depth += 1;
                surplus += limits::TOOL_MEMBER_TOKENS + depth;
            }
            b',' => surplus += limits::TOOL_MEMBER_TOKENS + depth,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                surplus += 1 + depth;
            }
            _ => {}
        }
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_a_token_a_byte_at_most() {
        let of = |body: &str| max_tokens(body.as_bytes(), None, 0) - limits::TEMPLATE_TOKENS;
        for text in ["0123456789", "deadbeef00ff", "the quick brown fox", "漢字かな交じり文", "🦀🏴‍☠️", "\\ud83e\\udd80"]
        {
            assert_eq!(of(text), text.len() as u64, "{text}");
        }
        // What normalization takes apart, by the bytes it becomes.
        assert_eq!((of("\u{1d15e}"), of("\u{958}"), of("\u{fb2c}")), (12, 6, 6));
    }

    #[test]
    fn tools_count_as_they_are_printed() {
        let of = |tools: &str| surplus_of_tools(tools.as_bytes()) - limits::TOOLS_TOKENS;
        assert_eq!(of("[]"), limits::TOOL_MEMBER_TOKENS + 1 + 1);
        // Ten levels, and a hundred members each of which stands on a line of its own behind forty spaces.
        let deep = format!("{}1{}{}", "[".repeat(10), ",1".repeat(100), "]".repeat(10));
        assert!(of(&deep) > 100 * 10, "{}", of(&deep));
        assert_eq!(of(r#""[[,,{{\"[[""#), 0, "what is said is not printed otherwise");
        assert_eq!(of("\"é\""), 4);
    }
}
