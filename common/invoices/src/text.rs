//! Text for documents: one line of composed characters without invisible ones.

use unicode_normalization::UnicodeNormalization;

/// Returns the text as one line without control characters, directional marks and characters that no typeface or XML
/// allows. Each run of white space becomes a space.
pub(crate) fn clean(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.nfc().filter(|&c| !is_invisible(c)) {
        if !(c.is_whitespace() || c.is_control()) {
            line.push(c);
        } else if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
    }
    line.truncate(line.trim_end().len());
    line
}

/// Returns whether the text is invisible on a document.
pub fn is_blank(text: &str) -> bool {
    clean(text).is_empty()
}

/// Returns whether a character is a format character, which could make one name look like another, a variation
/// selector, or a private use or non-character, which PDF/A forbids.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{10ffff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_line_of_visible_characters() {
        for (given, cleaned) in [
            ("Ada\tLovelace\r\n  Ltd ", "Ada Lovelace Ltd"),
            ("\u{202e}dtL\u{0}", "dtL"),
            ("e\u{301}", "é"),
            ("a\u{fffe}\u{f000}\u{feff}b", "ab"),
            ("<&>\"'", "<&>\"'"),
            ("株式会社", "株式会社"),
            (" \n ", ""),
        ] {
            assert_eq!(clean(given), cleaned, "{given:?}");
        }
    }
}
