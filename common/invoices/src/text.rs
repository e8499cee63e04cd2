//! Text as a document may carry it: one line, in composed characters, with nothing invisible in it.

use unicode_normalization::UnicodeNormalization;

/// Returns the text as one line without control characters, directional marks and what no typeface and no XML has. Every run of
/// white space becomes a space.
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

/// Returns whether nothing of the text can be seen on a document.
pub fn is_blank(text: &str) -> bool {
    clean(text).is_empty()
}

/// Format characters, variation selectors, private use and non-characters: a name could pretend to be another with the first, and
/// PDF/A forbids the last two.
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
