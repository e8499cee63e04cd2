//! Single lines of text that people write: labels, names, lines of an invoice.
//!
//! Every single-line field is validated by [`validate`], so that all accept the same text; text from others that is only
//! displayed goes through [`strip_hidden`].

/// The reason a text is not a valid line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The text is too long.
    #[error("the text is too long")]
    Length,
    /// The text has characters that break the line, change its direction, or are invisible.
    #[error("the text is not one line without control characters and invisible ones")]
    Hidden,
}

/// Returns the text trimmed, possibly to nothing, if it has at most `most` characters.
pub fn validate(text: &str, most: usize) -> Result<&str, LineError> {
    if text.chars().count() > most {
        return Err(LineError::Length);
    }
    let text = text.trim();
    if has_hidden(text) { Err(LineError::Hidden) } else { Ok(text) }
}

/// Returns at most `most` characters of a foreign text, without those rejected by [`is_hidden`].
pub fn strip_hidden(text: &str, most: usize) -> String {
    text.chars().filter(|&c| !is_hidden(c)).take(most).collect()
}

/// Returns whether mail programs may link a part of the text: `https://…`, `www.…`, `evil.example`, `ada@example`.
pub fn has_link(text: &str) -> bool {
    let is_dotted = |word: &str| {
        let parts: Vec<&str> = word.split(is_dot).collect();
        parts.windows(2).any(|pair| {
            let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            joins(pair[0].chars().next_back()) && joins(pair[1].chars().next())
        })
    };
    text.contains("://") || text.contains(['@', '\u{ff20}', '\u{fe6b}']) || text.split_whitespace().any(is_dotted)
}

/// Returns whether `c` is the full stop or a character that hostnames treat as one (UTS #46).
fn is_dot(c: char) -> bool {
    matches!(c, '.' | '\u{3002}' | '\u{ff0e}' | '\u{ff61}' | '\u{2024}' | '\u{fe52}')
}

/// Returns whether a text has characters that break the line or are invisible; the latter let one name imitate another.
/// Emoji joiners and variation selectors are allowed within an emoji.
pub fn has_hidden(text: &str) -> bool {
    let mut before = ' ';
    text.chars().any(|c| {
        let is_hidden = is_hidden(c) && !(is_pictogram_modifier(c) && is_pictogram(before));
        before = c;
        is_hidden
    })
}

/// Returns whether a character breaks the line, changes the direction of text, or is invisible.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{13430}'..='\u{1343f}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether `c` is the joiner or a variation selector.
fn is_pictogram_modifier(c: char) -> bool {
    matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

fn is_pictogram(c: char) -> bool {
    matches!(c, '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}'
        | '\u{3030}'..='\u{303d}' | '\u{3297}'..='\u{3299}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_found() {
        for good in
            ["", "Acme & Söhne", "株式会社", "Ελλάδα", "עברית", "ⅷ – “x”", "❤\u{fe0f} CI", "👩\u{200d}💻", "👍🏽 ok"]
        {
            assert!(!has_hidden(good), "{good:?}");
        }
        for c in [
            '\0',
            '\t',
            '\n',
            '\r',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{180e}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(has_hidden(&format!("a{c}b")) && has_hidden(&c.to_string()), "{c:?}");
        }
    }

    #[test]
    fn a_line_is_trimmed_and_counted_in_characters() {
        assert_eq!(validate("  my laptop ", 20), Ok("my laptop"));
        assert_eq!(validate(" \t", 20), Ok(""));
        assert_eq!((validate(&"é".repeat(3), 3), validate(&"é".repeat(4), 3)), (Ok("ééé"), Err(LineError::Length)));
        assert_eq!(validate("a\nb", 20), Err(LineError::Hidden));
        assert_eq!(strip_hidden("a\u{202e}b\r\nc\u{200b}d", 3), "abc");
    }

    #[test]
    fn what_mail_programs_link_is_found() {
        for good in
            ["", "Acme & Söhne", "Dr. Oetker", "St. Gallen e. V.", "Acme ... Inc.", "1 + 1", "C/O Ada", "株式会社"]
        {
            assert!(!has_link(good), "{good:?}");
        }
        for bad in [
            "https://evil.example/login",
            "HTTPS://X",
            "evil.example",
            "(evil.example)",
            "www.evil",
            "see evil.example/x!",
            "ada@evil",
            "evil\u{3002}example",
            "evil\u{ff0e}example",
            "203.0.113.9",
        ] {
            assert!(has_link(bad), "{bad:?}");
        }
    }
}
